package local

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestPodsOfANode(t *testing.T) {
	for name, c := range map[string]struct {
		labels  map[string]string
		runtime string
		want    string
	}{
		"all ids and limits": {
			map[string]string{idsLabel: "all", limitsLabel: "cpu.memory.pids"}, "capstan://v1.36.3",
			"real, ids all, limits cpu.memory.pids",
		},
		"one id, no limits": {
			map[string]string{idsLabel: "one", limitsLabel: "none"}, "capstan://v1.36.3", "real, ids one, limits none",
		},
		"hollow": {
			map[string]string{hollowLabel: "true"}, "capstan://v1.36.3", "hollow",
		},
		"an early bundle":                       {nil, "capstan://v1.36.3", "hollow"},
		"another runtime":                       {nil, "containerd://2.1.0", "real"},
		"a value that would control a terminal": {map[string]string{idsLabel: "\x1b[2J"}, "containerd://2.1.0", "real"},
		"hollow wins over other labels": {
			map[string]string{hollowLabel: "true", idsLabel: "all"}, "capstan://v1", "hollow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeAnswer{}
			n.Metadata.Labels, n.Status.NodeInfo.ContainerRuntimeVersion = c.labels, c.runtime
			if got := n.pods("default").String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAskNodes(t *testing.T) {
	answer, code := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes" || r.URL.Query().Get("limit") == "" {
			t.Errorf("the request is for %s", r.URL)
		}
		w.WriteHeader(code)
		w.Write([]byte(answer))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}

	answer = `{"items": [{"metadata": {"name": "a\nb", "labels": {"capstan.dev/ids": "all"}},
		"spec": {"providerID": "capstan://default/host-01/u"}}]}`
	got, err := askNodes(t.Context(), config, "default")
	if err != nil || len(got) != 1 || strings.Contains(got[0].Node, "\n") || got[0].Host != "host-01" || got[0].Hollow {
		t.Errorf("got %+v, %v", got, err)
	}
	answer = strings.Repeat(" ", nodesBytes+1)
	if _, err := askNodes(t.Context(), config, "default"); err == nil {
		t.Error("no error for an answer that is too long")
	}
	answer, code = "no", http.StatusForbidden
	if _, err := askNodes(t.Context(), config, "default"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("got error %v, want one with the status", err)
	}
}
