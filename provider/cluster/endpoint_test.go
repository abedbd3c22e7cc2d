package cluster

import "testing"

func TestHostProblem(t *testing.T) {
	for host, fine := range map[string]bool{
		"": true, "10.0.0.1": true, "192.0.2.10": true, "2001:db8::1": true, "fd00::1": true, "api.example.com": true,
		"API.example.com": true,
		"127.0.0.1":       false, "::1": false, "::ffff:127.0.0.1": false, "0.0.0.0": false, "::": false, "224.0.0.1": false,
		"255.255.255.255": false, "169.254.169.254": false, "fe80::1": false, "2001:db8::1%eth0": false,
		"localhost": false, "LOCALHOST": false, "a b": false, "a\u202eb": false, "a\x1b[31m": false, "user@host": false,
		"host:1": false, "[::1]": false, "127.1": true, "host?x": false, "-": false,
	} {
		if problem := hostProblem(host); (problem == "") != fine {
			t.Errorf("the problem of host %q is %q", host, problem)
		}
	}
}
