-- The schema that the logs are in, unless it exists already.
create schema if not exists seriatim;
