package client_test

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

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
)

// bigRequest has about 9 KB as JSON.
func bigRequest() *runtimehooksv1.BeforeClusterCreateRequest {
	cluster := testCluster()
	cluster.Annotations = map[string]string{}
	for i := range 60 {
		cluster.Annotations[fmt.Sprintf("example.org/annotation-%d", i)] = strings.Repeat("x", 110)
	}
	return &runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}
}

// BenchmarkCall measures calls of 1, 5 and 20 handlers. Compare with BenchmarkFloor.
func BenchmarkCall(b *testing.B) {
	for _, handlers := range []int{1, 5, 20} {
		b.Run(fmt.Sprint(handlers), func(b *testing.B) {
			bench := newBench(b, client.Options{})
			s := bench.ca.Serve(b, body(success), nil)
			for i := range handlers {
				bench.register(bench.config(fmt.Sprintf("e%d", i), s.URL), "h", runtimev1.FailurePolicyFail, 10)
			}
			request, cluster := bigRequest(), testCluster()
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.client.CallAllExtensions(context.Background(), runtimehooksv1.BeforeClusterCreate, cluster, request,
					&runtimehooksv1.BeforeClusterCreateResponse{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFloor is a bare POST of the same bytes to the same server, without looking at the answer.
func BenchmarkFloor(b *testing.B) {
	bench := newBench(b, client.Options{})
	s := bench.ca.Serve(b, body(success), nil)
	data, err := json.Marshal(bigRequest())
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bench.ca.PEM)
	bare := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer bare.CloseIdleConnections()
	b.ReportAllocs()
	for b.Loop() {
		answer, err := bare.Post(s.URL+"/x", "application/json", bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			b.Fatal(err)
		}
		_ = answer.Body.Close()
	}
}

// BenchmarkGetAllExtensions measures a method that reconcilers use before almost every call, so it must cost next to
// nothing.
func BenchmarkGetAllExtensions(b *testing.B) {
	bench := newBench(b, client.Options{})
	for i := range 20 {
		bench.register(bench.config(fmt.Sprintf("e%d", i), "https://127.0.0.1:1"), "h", runtimev1.FailurePolicyFail, 10)
	}
	cluster := testCluster()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bench.client.GetAllExtensions(context.Background(), runtimehooksv1.BeforeClusterCreate,
			cluster); err != nil {
			b.Fatal(err)
		}
	}
}
