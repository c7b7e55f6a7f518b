-- All hosts, and whether leases are as they were. ARGV: prefix. Returns the id of the last news and the hosts, each as all_hosts has it.
return { mark(), all_hosts() }
