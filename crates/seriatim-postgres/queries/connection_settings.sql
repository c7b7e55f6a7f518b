-- What Seriatim's own connections have set, whatever the role's defaults are.
set search_path = pg_catalog;
set timezone = 'UTC';
set datestyle = 'ISO, YMD';
set intervalstyle = 'iso_8601';
set bytea_output = 'hex';
set extra_float_digits = 1;
set default_transaction_isolation = 'read committed';
set default_transaction_read_only = off;
set default_transaction_deferrable = off;
set client_min_messages = 'warning';
set lock_timeout = '5s';
-- Statements here are short: compiling them, or helpers for them, would take longer than they do.
set jit = off;
set max_parallel_workers_per_gather = 0;
set tcp_keepalives_idle = 10;
set tcp_keepalives_interval = 5;
set tcp_keepalives_count = 3;
-- A claim or a lease that a crash of the server undoes would be two people's: commits are flushed, and more where that is asked for.
select set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'local'), false);
