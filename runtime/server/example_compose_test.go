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

// Two checks of one handler run at the same time; both reasons are reported, and the shorter wait is used.
func ExampleParallel() {
	quota := func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest,
		*runtimehooksv1.BeforeClusterCreateResponse) error {
		return server.Wait(time.Minute, "the quota is used up")
	}
	approval := func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest,
		*runtimehooksv1.BeforeClusterCreateResponse) error {
		return server.Wait(10*time.Second, "nobody has approved it")
	}
	extension, err := server.New(server.Options{},
		server.Handle(hook.BeforeClusterCreate, "checks", server.Parallel(quota, approval)))
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	extension.ServeHTTP(w, httptest.NewRequest(http.MethodPost,
		"/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/checks", strings.NewReader(`{"cluster":{}}`)))
	fmt.Println(w.Body)
	// Output:
	// {"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","message":"the quota is used up, nobody has approved it","retryAfterSeconds":10}
}

// Settings of the ExtensionConfig arrive as the author's type.
func ExampleHandleSettings() {
	type settings struct {
		Approvers []string      `setting:"approvers,required"`
		Patience  time.Duration `setting:"patience" default:"30s"`
	}
	handle := func(_ context.Context, s settings, _ *runtimehooksv1.BeforeClusterCreateRequest,
		_ *runtimehooksv1.BeforeClusterCreateResponse) error {
		return server.Wait(s.Patience, "waits for "+strings.Join(s.Approvers, " or "))
	}
	extension, err := server.New(server.Options{}, server.HandleSettings(hook.BeforeClusterCreate, "approval", handle))
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	extension.ServeHTTP(w, httptest.NewRequest(http.MethodPost,
		"/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/approval",
		strings.NewReader(`{"settings":{"approvers":"ann, bob"},"cluster":{}}`)))
	fmt.Println(w.Body)
	// Output:
	// {"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","message":"waits for ann or bob","retryAfterSeconds":30}
}
