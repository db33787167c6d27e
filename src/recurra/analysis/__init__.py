"""What a network does: Jacobians, gradients over time, fixed points, fields, tables. Nothing here trains."""
