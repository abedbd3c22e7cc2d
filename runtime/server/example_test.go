package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// An extension that holds Clusters back until somebody has approved them.
func Example() {
	approval := func(_ context.Context, request *runtimehooksv1.BeforeClusterCreateRequest,
		response *runtimehooksv1.BeforeClusterCreateResponse) error {
		if request.Cluster.Annotations["example.org/approved-by"] == "" {
			return server.Wait(30*time.Second, "waits for approval: set the annotation example.org/approved-by")
		}
		response.Message = "approved"
		return nil
	}
	extension, err := server.New(server.Options{},
		server.Handle(hook.BeforeClusterCreate, "approval", approval, server.Timeout(5*time.Second)))
	if err != nil {
		fmt.Println(err)
		return
	}

	// In a program this is server.Serve(ctx, server.TLS{...}, extension).
	w := httptest.NewRecorder()
	extension.ServeHTTP(w, httptest.NewRequest(http.MethodPost,
		"/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/approval", strings.NewReader(`{"cluster":{}}`)))
	fmt.Println(w.Body)
	// Output:
	// {"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","message":"waits for approval: set the annotation example.org/approved-by","retryAfterSeconds":30}
}
