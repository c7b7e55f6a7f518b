-- The next existing rows after $1, up to $2, at most $3: their names, the hash of their keys, and their images.
with page as materialized (
    select {image} as image, {page_columns} from {table} t
    where ($1::text[] is null or ({row_columns}) > ({after})) and ($2::text[] is null or ({row_columns}) <= ({upper}))
    order by {row_columns} limit $3
)
select array[{texts}], {hash}, p.image::text, {sifted}::text from page p order by {columns}
