package openapi_test

import (
	"fmt"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/openapi"
)

// The document contains everything needed to write an extension in another language.
func ExampleOf() {
	document, err := openapi.Of(hook.ClusterAPI(), openapi.Options{Version: "v1.14"})
	if err != nil {
		fmt.Println(err)
		return
	}
	create := document.Paths["/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/{name}"].Post
	fmt.Println(create.Summary)
	const response = "sigs.k8s.io.cluster-api.api.runtime.hooks.v1alpha1.BeforeClusterCreateResponse"
	fmt.Println(document.Components.Schemas[response].Required)
	// Output:
	// Cluster API Runtime will call this hook before a Cluster's topology is created
	// [retryAfterSeconds status]
}
