package client_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/server"
)

// The steps of a management plane, without a cluster: discover an extension, register it, and call a hook.
func Example() {
	extension, err := server.New(server.Options{}, server.Handle(hook.BeforeClusterCreate, "quota",
		func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest, *runtimehooksv1.BeforeClusterCreateResponse) error {
			return server.Wait(10*time.Second, "the quota is used up")
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	s := httptest.NewTLSServer(extension)
	defer s.Close()

	calls, err := client.New(client.Options{
		Observer: func(call record.Call) { fmt.Println(call.Extension, call.Handler, call.Answer, call.RetryAfter) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer calls.Close()
	if err := calls.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		fmt.Println(err)
		return
	}

	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "example"}}
	config.Spec.ClientConfig.URL = s.URL
	config.Spec.ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	discovered, err := calls.Discover(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := calls.Register(discovered); err != nil {
		fmt.Println(err)
		return
	}

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}}
	response := &runtimehooksv1.BeforeClusterCreateResponse{}
	err = calls.CallAllExtensions(context.Background(), runtimehooksv1.BeforeClusterCreate, cluster,
		&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, response)
	fmt.Println(err, response.RetryAfterSeconds, response.Message)
	// Output:
	// example quota Blocked 10s
	// <nil> 10 the quota is used up
}
