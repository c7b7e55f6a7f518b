-- Bounds (milliseconds) what a host that hangs can hold up.
select set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true)
