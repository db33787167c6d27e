from recurra.cli.main import main

main()
