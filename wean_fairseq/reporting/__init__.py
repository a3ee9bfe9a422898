"""Experiments to look at: ``wean-report`` makes a page of run directories, ``wean-plot`` draws the papers' figures."""
