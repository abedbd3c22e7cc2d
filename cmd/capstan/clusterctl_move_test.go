package main

import (
	"testing"

	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

func TestMoveLines(t *testing.T) {
	a := &app{namespace: "blue"}
	for want, c := range map[string]struct{ from, to upstream.Kubeconfig }{
		"capstan clusterctl move call-off -n blue --to-kubeconfig b": {to: upstream.Kubeconfig{Path: "b"}},
		"capstan clusterctl move call-off -n blue --kubeconfig 'my a' --kubeconfig-context x --to-kubeconfig b --to-kubeconfig-context y": {
			upstream.Kubeconfig{Path: "my a", Context: "x"}, upstream.Kubeconfig{Path: "b", Context: "y"},
		},
	} {
		got := a.callOffLine(&target{kubeconfig: c.from.Path, context: c.from.Context}, &destination{kubeconfig: c.to})
		if got != want || inNamespace(got, a.namespace) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
