// Every view: its name in addresses, its title, and whether it shows the folder or a run (two runs are shown side by side).
// The module has `show(panel)`; `views/__init__.py` has the other half of each.
export const VIEWS = [
  { name: "runs", title: "Runs", of: "folder", load: () => import("./views/runs.js") },
  { name: "bench", title: "Cell bench", of: "folder", load: () => import("./views/bench.js") },
  { name: "time", title: "Through time", of: "run", load: () => import("./views/time.js") },
  { name: "gradients", title: "Gradients", of: "folder", load: () => import("./views/gradients.js") },
  { name: "space", title: "State space", of: "run", load: () => import("./views/space.js") },
  { name: "generate", title: "Generate", of: "run", load: () => import("./views/generate.js") },
];
