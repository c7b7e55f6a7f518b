-- Names in a user's query and in functions of a user's view mean what they mean in a session of this role.
select set_config('search_path', s.reset_val, true) from pg_settings s where s.name = 'search_path'
