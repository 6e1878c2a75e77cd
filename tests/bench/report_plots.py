# SPDX-License-Identifier: Apache-2.0
"""Plots of the results, as SVG and PNG."""

COLUMNS = 3  # of small plots in one
COLOURS = (("no policy", "#888888"), ("empty", "#bbbbbb"), ("Phasegate", "#1b6ca8"))
OTHER = "#d98c3f"


def colour(row):
    return next((colour for prefix, colour in COLOURS if row.startswith(prefix)), OTHER)


def save(figure, directory, name):
    figure.savefig(directory / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    figure.savefig(directory / f"{name}.png", bbox_inches="tight", dpi=110)
    return f"{name}.svg"


def bars(axes, table, column, rows, title):
    """Horizontal bars with quartiles, the first row at the top."""
    rows = [row for row in rows if table.value(row, column) is not None]
    values = [table.value(row, column) for row in rows]
    ends = [[value - (table.value(row, column, "low") or value) for row, value in zip(rows, values)],
            [(table.value(row, column, "high") or value) - value for row, value in zip(rows, values)]]
    places = range(len(rows))
    axes.barh(places, values, xerr=[[max(end, 0) for end in side] for side in ends], height=0.75,
              color=[colour(row) for row in rows], error_kw={"elinewidth": 0.8, "ecolor": "#333333"})
    axes.set_yticks(places, rows, fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_work(pyplot, table, title, directory, name, line):
    lines = -(-len(table.columns) // COLUMNS)
    figure, grid = pyplot.subplots(lines, COLUMNS, figsize=(5.2 * COLUMNS, 2.9 * lines), squeeze=False)
    for axes, column in zip(grid.flat, table.columns):
        bars(axes, table, column, table.rows, column)
        if line is not None:
            axes.axvline(line, color="#333333", linewidth=0.8, linestyle=":")
    for axes in list(grid.flat)[len(table.columns):]:
        axes.set_visible(False)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return save(figure, directory, name)


def draw_switches(pyplot, table, title, directory):
    column = "whole call, median"
    rows = [row for row in table.rows if "flood" in row and table.value(row, column) is not None]
    if not rows:
        return None
    figure, axes = pyplot.subplots(figsize=(9, 0.4 * len(rows) + 1.2))
    bars(axes, table, column, rows, title)
    axes.set_xscale("log")
    return save(figure, directory, "switches")


def draw(results, directory):
    """Returns [(title, name of the file)]."""
    # Only full runs have plots, and so need it.
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "phasegate", "svg.fonttype": "none"})
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    plots = []
    for key, title, line in (("ratios", "Rate, compared with no policy (longer is better)", 1),
                             ("added", "CPU time added to an operation, ns (shorter is better)", None)):
        if key in results.tables and results.tables[key].columns:
            plots.append((title, draw_work(pyplot, results.tables[key], title, directory, key, line)))
    if "switches" in results.tables:
        title = "A switch under a UDP flood, whole call, median, us (logarithmic; shorter is better)"
        name = draw_switches(pyplot, results.tables["switches"], title, directory)
        plots += [(title, name)] if name else []
    return plots
