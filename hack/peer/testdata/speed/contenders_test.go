package speed

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	peerclient "github.com/capstan-dev/capstan/runtime/internal/peer/client"
	peerregistry "github.com/capstan-dev/capstan/runtime/internal/peer/registry"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
)

func testCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1"}}
}

// bigRequest has about 9 KB as JSON.
func bigRequest() *runtimehooksv1.BeforeClusterCreateRequest {
	cluster := testCluster()
	cluster.Annotations = map[string]string{}
	for i := range 60 {
		cluster.Annotations[fmt.Sprintf("example.org/annotation-%d", i)] = strings.Repeat("x", 110)
	}
	return &runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}
}

// configs are ExtensionConfigs with one handler each.
func configs(ca *testtls.Authority, url, handler string, count int) []runtimev1.ExtensionConfig {
	list := make([]runtimev1.ExtensionConfig, count)
	for i := range list {
		c := &list[i]
		c.Name = fmt.Sprintf("e%03d", i)
		c.Spec.ClientConfig = runtimev1.ClientConfig{URL: url, CABundle: ca.PEM}
		c.Spec.NamespaceSelector = &metav1.LabelSelector{}
		c.Status.Handlers = []runtimev1.ExtensionHandler{{
			Name:           handler + "." + c.Name,
			RequestHook:    runtimev1.GroupVersionHook{APIVersion: hook.BeforeClusterCreate.ID().APIVersion(), Hook: "BeforeClusterCreate"},
			TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail,
		}}
	}
	return list
}

// own is our client, or a variant of it.
type own interface {
	runtimeclient.Client
	Close()
}

// ours returns our client with these extensions.
func ours(t *testing.T, list []runtimev1.ExtensionConfig) own {
	t.Helper()
	c, err := client.New(client.Options{})
	return warm(t, c, err, list)
}

// warm warms up a new client.
func warm(t *testing.T, c own, err error, list []runtimev1.ExtensionConfig) own {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{Items: list}); err != nil {
		t.Fatal(err)
	}
	return c
}

// noCluster is the client that the peer asks for namespaces and schemes.
type noCluster struct {
	ctrlclient.Client
	scheme *runtime.Scheme
}

func (c noCluster) Scheme() *runtime.Scheme { return c.scheme }

// peer returns Cluster API's client with these extensions.
func peer(t *testing.T, list []runtimev1.ExtensionConfig) runtimeclient.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	c, _, err := peerclient.New(t.Context(), peerclient.Options{Catalog: catalog, Registry: peerregistry.New(), Client: noCluster{scheme: scheme}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{Items: list}); err != nil {
		t.Fatal(err)
	}
	return c
}

// calls returns a function that calls all handlers once.
func calls(t *testing.T, c runtimeclient.Client) func() {
	request, cluster := bigRequest(), testCluster()
	return func() {
		if err := c.CallAllExtensions(context.Background(), runtimehooksv1.BeforeClusterCreate, cluster, request,
			&runtimehooksv1.BeforeClusterCreateResponse{}); err != nil {
			t.Fatal(err)
		}
	}
}

// posts returns a function that posts the same bytes once, with net/http over HTTP/1.1, which is faster here than
// HTTP/2.
func posts(t *testing.T, ca *testtls.Authority, url string) func() {
	t.Helper()
	request := bigRequest()
	request.SetGroupVersionKind(runtimehooksv1.GroupVersion.WithKind("BeforeClusterCreateRequest"))
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	bare := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 32}}
	t.Cleanup(bare.CloseIdleConnections)
	return func() {
		answer, err := bare.Post(url+"/x", "application/json", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
}
