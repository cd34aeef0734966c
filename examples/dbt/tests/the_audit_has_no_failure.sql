-- Rows are the checks that failed.
select * from {{ ref("release_audit") }} where result = 'fails'
