package supply

import "testing"

func TestAgentConfig(t *testing.T) {
	got, err := AgentConfig(AgentServer{URL: "https://10.231.0.1:6443", CAData: []byte("PEM")}, "default",
		"host-01", "secret")
	if err != nil {
		t.Fatal(err)
	}
	want := `caData: UEVN
host: host-01
local: true
namespace: default
server: https://10.231.0.1:6443
token: secret
`
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
