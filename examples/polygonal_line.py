"""A curve as a polygonal line, the line as a rectifier network, and what more layers buy.

Run it:  python examples/polygonal_line.py
"""

import numpy as np

import recurra as rc

lecture = rc.lecture

x = np.linspace(0, 1, 2001)
curve = np.sin(2 * np.pi * x)
print("one hidden layer: sin 2πx by a polygonal line")
for pieces in (4, 16, 64, 256):
    knots = np.linspace(0, 1, pieces + 1)
    network = lecture.polygonal_network([(k, np.sin(2 * np.pi * k)) for k in knots.tolist()])
    error = np.abs(network(x[:, None])[:, 0] - curve).max()
    print(f"  {network.widths[0]:3d} units   largest error {error:.1e}")

print("24 units on a line, in one layer or in several: regions of the network that folds")
for layers in (1, 2, 3, 4, 6, 8):
    widths = [24 // layers] * layers
    counted = len(lecture.regions_on_line(lecture.folding_network(1, widths), 0, 1))
    low, high = lecture.lower_bound(1, widths), lecture.upper_bound(1, widths)
    print(f"  {layers} × {widths[0]:2d}   {counted:6,} (at least {low:,}, at most {high:,})")
