"""The Spark engine: the same plans, applied where the table lies.

`engine` runs the two passes; `counting` is the first one, by Spark's group-by; `worker` is what
executors do in the second, `writing` how they put a release into a store; `sealing` is how the plan
and the key of the draws reach them; `session` is about Spark itself.
"""
