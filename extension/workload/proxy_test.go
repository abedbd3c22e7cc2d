package workload

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// outside is an address that no computer has (RFC 5737).
const outside = "192.0.2.3:6443"

// TestTheEnvironmentsProxyIsUsed: the extension of a local plane reaches clusters on other computers only through a
// proxy.
func TestTheEnvironmentsProxyIsUsed(t *testing.T) {
	if os.Getenv("CHILD") != "" { // Go reads the proxy from the environment only once
		scheme := runtime.NewScheme()
		if err := corev1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		config := &rest.Config{Host: "https://" + outside, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		cluster, err := Open(config, scheme)
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		if err := cluster.List(t.Context(), &corev1.ConfigMapList{}); err == nil {
			t.Error("the cluster was reached although the proxy refuses")
		}
		return
	}
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Method + " " + r.Host:
		default:
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	_, port, _ := net.SplitHostPort(proxy.Listener.Addr().String())
	child.Env = append(os.Environ(), "CHILD=1", "HTTPS_PROXY=http://127.0.0.1:"+port, "NO_PROXY=", "no_proxy=")
	if output, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	select {
	case got := <-asked:
		if want := "CONNECT " + outside; got != want {
			t.Errorf("the proxy was asked for %q, want %q", got, want)
		}
	default:
		t.Error("the proxy was not asked")
	}
}
