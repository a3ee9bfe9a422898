"""Reports and figures: ``wean-report`` writes a page on run directories, ``wean-plot`` draws the papers' figures."""
