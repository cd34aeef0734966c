-- depends_on: {{ ref("release_audit") }}
select * from read_parquet('{{ var("release") }}/sensitive.parquet')
