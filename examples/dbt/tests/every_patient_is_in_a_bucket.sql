-- Buckets have as many records as values. Rows are the buckets in which they differ.
with people as (select bucket, count(*) as n from {{ ref("published_records") }} group by bucket),
     cells as (select bucket, sum("count") as n from {{ ref("published_values") }} group by bucket)
select coalesce(people.bucket, cells.bucket) as bucket
from people full join cells using (bucket)
where people.n is distinct from cells.n
