-- What is handled beyond the position of a lease: ids as ranges, and how far the source was read. Null where there is nothing.
alter table seriatim.lease add column done_above text;
