package hookcall

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestRun(t *testing.T) {
	type (
		request  = runtimehooksv1.BeforeClusterCreateRequest
		response = runtimehooksv1.BeforeClusterCreateResponse
	)
	extension := hooktest.Start(t,
		server.Handle(hook.BeforeClusterCreate, "open", func(_ context.Context, _ *request, r *response) error {
			r.Message = "fine"
			return nil
		}),
		server.Handle(hook.BeforeClusterCreate, "closed", func(_ context.Context, r *request, _ *response) error {
			return server.Wait(time.Hour, "no hosts for "+r.Cluster.Name)
		}),
		server.Handle(hook.BeforeClusterCreate, "broken", func(context.Context, *request, *response) error {
			return errors.New("no database")
		}))
	byServer := &runtimev1.ExtensionConfig{Spec: runtimev1.ExtensionConfigSpec{
		ClientConfig: runtimev1.ClientConfig{URL: extension.URL, CABundle: extension.CA},
	}}
	byServer.Name = hooktest.Name
	for name, o := range map[string]Options{
		"a registered extension":        {Extensions: []runtimev1.ExtensionConfig{*extension.Config}},
		"a server, which is discovered": {Server: byServer},
	} {
		t.Run(name, func(t *testing.T) {
			answers, err := Run(t.Context(), hook.BeforeClusterCreate.Descriptor(), sample.Cluster(), o)
			if err != nil || len(answers) != 3 || Failed(answers) != 1 {
				t.Fatalf("got %+v, %v", answers, err)
			}
			broken, closed, open := answers[0], answers[1], answers[2]
			if broken.Answer != "Failure" || !strings.Contains(broken.Error, "no database") || broken.Response != nil {
				t.Errorf("the handler that fails: %+v", broken)
			}
			if closed.Answer != "Blocked" || closed.RetryAfter != "1h0m0s" || closed.Message != "no hosts for sample" {
				t.Errorf("the handler that blocks: %+v", closed)
			}
			if open.Answer != "Success" || open.RetryAfter != "" || open.Message != "fine" || open.Response == nil ||
				open.Took == "" {
				t.Errorf("the handler that lets the Cluster through: %+v", open)
			}
			o.Handler = "open." + hooktest.Name
			answers, err = Run(t.Context(), hook.BeforeClusterCreate.Descriptor(), sample.Cluster(), o)
			if err != nil || len(answers) != 1 || answers[0].Handler != o.Handler {
				t.Errorf("calling only one handler by its name: %+v, %v", answers, err)
			}
			var none *NoHandlerError
			_, err = Run(t.Context(), hook.UpdateMachine.Descriptor(), sample.Cluster(), o)
			if !errors.As(err, &none) {
				t.Errorf("a hook without a handler: %v", err)
			}
		})
	}
}

// Handlers that are not called in time are in the answers, as failures that say so.
func TestTheTimeForAllCalls(t *testing.T) {
	slow := func(ctx context.Context, _ *runtimehooksv1.BeforeClusterCreateRequest,
		_ *runtimehooksv1.BeforeClusterCreateResponse,
	) error {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		return nil
	}
	extension := hooktest.Start(t, server.Handle(hook.BeforeClusterCreate, "a", slow),
		server.Handle(hook.BeforeClusterCreate, "b", slow), server.Handle(hook.BeforeClusterCreate, "c", slow))
	start := time.Now()
	answers, err := Run(t.Context(), hook.BeforeClusterCreate.Descriptor(), sample.Cluster(), Options{
		Extensions: []runtimev1.ExtensionConfig{*extension.Config}, Timeout: 300 * time.Millisecond,
	})
	if err != nil || len(answers) != 3 || Failed(answers) != 3 || time.Since(start) > 5*time.Second {
		t.Fatalf("after %s: %+v, %v", time.Since(start), answers, err)
	}
	if answers[1].Answer != "NotCalled" || answers[2].Answer != "NotCalled" ||
		!strings.Contains(answers[2].Error, "the time for all calls ran out") {
		t.Errorf("got %+v", answers)
	}
}

func TestFind(t *testing.T) {
	for name, c := range map[string]struct{ name, want string }{
		"the exact name":          {"BeforeClusterCreate", "BeforeClusterCreate"},
		"a name in lower case":    {"generatepatches", "GeneratePatches"},
		"an unknown hook":         {"BeforeLunch", ""},
		"a hook without settings": {"Discovery", ""},
		"an empty name":           {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Find(c.name)
			if (d == nil) != (c.want == "") || d != nil && d.ID.Name != c.want {
				t.Fatalf("found %v, %v", d, err)
			}
			if c.want != "" {
				return
			}
			var unknown *UnknownHookError
			if !errors.As(err, &unknown) || !strings.Contains(unknown.Hint(), "BeforeClusterCreate, ") {
				t.Errorf("got %v", err)
			}
		})
	}
	if slices.Contains(Names(), "Discovery") {
		t.Error("discovery is listed among the hooks that can be called")
	}
}

func TestParseCluster(t *testing.T) {
	const head = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: blue"
	for name, c := range map[string]struct{ text, namespace, err string }{
		"a Cluster without a namespace": {head + "}", "mine", ""},
		"a Cluster with a namespace":    {head + ", namespace: red}", "red", ""},
		"another version": {strings.Replace(head, "v1beta2", "v1beta1", 1) + "}", "",
			`a file holds a "Cluster" of "cluster.x-k8s.io/v1beta1"`},
		"another kind": {"apiVersion: v1\nkind: Pod\n", "", `a file holds a "Pod" of "v1"`},
		"nothing":      {"", "", `a file holds a "" of ""`},
		"invalid YAML": {"a: [", "", "reading the Cluster in a file"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := ParseCluster([]byte(c.text), "a file", "mine")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, %v", cluster, err)
				}
				return
			}
			if err != nil || cluster.Name != "blue" || cluster.Namespace != c.namespace {
				t.Errorf("got %v, %v", cluster, err)
			}
		})
	}
}
