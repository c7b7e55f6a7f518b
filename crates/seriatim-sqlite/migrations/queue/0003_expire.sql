-- How long a worker may be silent before others take its objects, in ms. Null for workers of older versions, which publish none.
alter table seriatim_queue_worker add column expire integer;
