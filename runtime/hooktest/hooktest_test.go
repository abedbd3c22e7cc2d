package hooktest_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	createRequest  = runtimehooksv1.BeforeClusterCreateRequest
	createResponse = runtimehooksv1.BeforeClusterCreateResponse
)

// An extension under test is called as in a management cluster: each request has the settings, and a call reaches all
// handlers or a single one (RC-21).
func TestCalls(t *testing.T) {
	handle := func(name string) server.Handler {
		return server.Handle(hook.BeforeClusterCreate, name,
			func(_ context.Context, request *createRequest, response *createResponse) error {
				if request.Cluster.Name == "" {
					return server.Wait(time.Hour, "there is no Cluster")
				}
				response.Message = fmt.Sprint(name, " ", request.Settings["colour"], " ", request.Cluster.Name)
				return nil
			})
	}
	extension := hooktest.StartWith(t, []server.Handler{handle("b"), handle("a")},
		hooktest.Settings(map[string]string{"colour": "blue"}))
	request := &createRequest{Cluster: *sample.Cluster()}
	response, err := hooktest.Call(t, extension, hook.BeforeClusterCreate, request)
	if err != nil || response.Message != "a blue sample, b blue sample" {
		t.Errorf("all: %q, %v", response.Message, err)
	}
	response, err = hooktest.CallOne(t, extension, hook.BeforeClusterCreate, "b", request)
	if err != nil || response.Message != "b blue sample" {
		t.Errorf("one: %q, %v", response.Message, err)
	}
	response, err = hooktest.CallOne(t, extension, hook.BeforeClusterCreate, "b", &createRequest{})
	if err != nil || response.RetryAfterSeconds != 3600 {
		t.Errorf("a wait: %d, %v", response.RetryAfterSeconds, err)
	}
	if got := len(extension.Config.Status.Handlers); got != 2 {
		t.Errorf("%d handlers were discovered", got)
	}
	extension.Conforms(t)
}

// A provider tests its own hooks in the same way.
func TestOwnHooks(t *testing.T) {
	beforePowerOff := hook.Define[createRequest, createResponse](
		schema.GroupVersion{Group: "hooks.example.org", Version: "v1"}, "BeforePowerOff")
	catalog, err := hook.NewCatalog(append(hook.ClusterAPIHooks(), beforePowerOff)...)
	if err != nil {
		t.Fatal(err)
	}
	extension := hooktest.StartWith(t, []server.Handler{
		server.Handle(beforePowerOff, "save", func(context.Context, *createRequest, *createResponse) error {
			return server.Wait(time.Second, "saving")
		}),
	}, hooktest.Catalog(catalog))
	response, err := hooktest.Call(t, extension, beforePowerOff, &createRequest{})
	if err != nil || response.Message != "saving" {
		t.Errorf("%q, %v", response.Message, err)
	}
}

// If a check fails, Conforms fails the test and logs the report.
func TestConformsFails(t *testing.T) {
	var calls atomic.Int64
	extension := hooktest.Start(t, server.Handle(hook.BeforeClusterCreate, "moody",
		func(_ context.Context, _ *createRequest, response *createResponse) error {

			response.Message = fmt.Sprint("call ", calls.Add(1))
			return nil
		}, server.Timeout(5*time.Second)))
	inner := &recorder{TB: t}
	extension.Conforms(inner)
	if !strings.Contains(inner.text, "failed   same-again") {
		t.Errorf("the failure message is %q", inner.text)
	}
}

// recorder records the failure of a test.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }
