-- No diagnosis has more than a fifth of a bucket. Rows are the buckets in which one has.
select bucket
from {{ ref("published_values") }}
group by bucket
having 5 * max("count") > sum("count")
