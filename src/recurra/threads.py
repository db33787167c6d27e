"""How threads wait, decided before torch is loaded: this module is imported first.

Threads that wait for work sleep. Where another process is busy, those that spin keep the working ones from the cores, and
small networks become many times slower; on a quiet machine it makes no difference that could be measured.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
