package workload

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// TestAnAnswerWithoutEndIsCutOff: the owner of a workload cluster controls its answers, and client-go reads them
// completely into memory.
func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
			return
		case "/api/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[` +
				`{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list"]}]}`))
			return
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","items":[`))
		spaces := bytes.Repeat([]byte(" "), 1<<20)
		for range 1 << 10 {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster, err := Open(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, scheme)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cluster.HTTP.Timeout = time.Minute // so that a slow machine reaches the limit of the size first
	err = cluster.List(t.Context(), &corev1.ConfigMapList{})
	if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("error %v, want one that says how large an answer may be", err)
	}
}
