"""Spans of a TensorFlow program by its profiler.

Their rows come in a graph from scopes, under XLA from scopes in its programs, eagerly from the order of operations and
the shapes that they allocate. Standard library and tensorflow alone, in the style of Python 3.6.
"""

import graphs  # beside this file
import hlo
import tf_rows
import xplane


def spans(tf, run, programs, layers, batch):
    """Return the spans of `run`; `programs`: (function, arguments) of all that it may call."""
    profiler, modules = tf.profiler.experimental, set()
    options = profiler.ProfilerOptions(host_tracer_level=2, python_tracer_level=0, device_tracer_level=0)
    traced, moment = xplane.record(
        lambda folder: profiler.start(folder, options=options), profiler.stop, profiler.Trace, run
    )
    for _, events in traced:
        modules.update(tf_rows.module(stats["hlo_module"]) for _, _, _, stats in events if "hlo_module" in stats)
    by_module, products = {}, set()
    for call, arguments in programs if modules else ():
        if any("inference_%s_" % call.python_function.__name__ in name for name in modules):
            text = call.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
            by_module[hlo.module(text)] = hlo.rows(
                text, lambda instruction: tf_rows.row(instruction.op_name, layers), graphs.work_kinds(layers)
            )
            products.update((hlo.module(text), name) for name in hlo.products(text))
    if all(spec["kind"] == "dense" for spec in layers):  # else the order does not determine the layer
        tf_rows.eager(traced, layers, batch)
    intervals = xplane.spans(traced, tf_rows.operation)
    tell = lambda what: tf_rows.tell(by_module, layers, what)  # noqa: E731
    return xplane.named(intervals, moment, tell, lambda what: what in products or tf_rows.multiplies(what))
