package plane_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	callclient "github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/server"
)

// freeAddress returns an address of this machine on which nobody was listening a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// checkMetrics registers an extension that blocks a Cluster, and expects its calls in the manager's metrics.
func checkMetrics(t *testing.T, ctx context.Context, c client.Client, address string) {
	extension := hooktest.Start(t, server.Handle(hook.BeforeClusterCreate, "hold",
		func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest, *runtimehooksv1.BeforeClusterCreateResponse) error {
			return server.Wait(time.Second, "held by a test")
		}))
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "observed"}}
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: extension.URL, CABundle: extension.CA}
	if err := c.Create(ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(ctx), config) })
	eventually(t, "the extension to be discovered", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		if len(config.Status.Handlers) != 1 {
			return fmt.Errorf("its handlers are %v, its conditions %v", config.Status.Handlers, config.Status.Conditions)
		}
		return nil
	})
	cluster := topology("observed", "v1.36.3")
	if err := c.Create(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	const labels = `extension="observed",group="hooks.runtime.cluster.x-k8s.io",handler="hold",hook="BeforeClusterCreate",version="v1alpha1"`
	atLeast := map[string]float64{
		callclient.MetricCalls + `{answer="Blocked",asked="true",` + labels + `}`: 1,
		callclient.MetricBlocked + `{` + labels + `}`:                             1,
		callclient.MetricDuration + `_count{` + labels + `}`:                      1,
		callclient.MetricErrors + `{` + labels + `}`:                              0,
		callclient.MetricCircuit + `{extension="observed",state="Closed"}`:        1,
	}
	eventually(t, "the metrics to have the call", func() error {
		values, err := scrape(ctx, address)
		if err != nil {
			return err
		}
		for name, want := range atLeast {
			if got, ok := values[name]; !ok || got < want {
				return fmt.Errorf("%s is %g (%t), want at least %g", name, got, ok, want)
			}
		}
		return nil
	})
	if err := c.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the blocked cluster to be gone", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster still exists: %v", err)
		}
		return nil
	})
}

// scrape reads metrics like Prometheus: by name and labels, in the order in which they are served.
func scrape(ctx context.Context, address string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	caller := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := caller.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the status of the response is %s: %w", response.Status, err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		if at := strings.LastIndex(line, " "); at > 0 && !strings.HasPrefix(line, "#") {
			if value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
				values[line[:at]] = value
			}
		}
	}
	return values, nil
}
