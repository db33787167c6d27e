"""Every picture: results of the analysis as SVG and PNG, on a light and on a dark ground."""
