-- The raw table. It stays here.
select * from read_parquet('{{ var("patients") }}')
