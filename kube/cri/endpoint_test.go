//go:build linux

package cri

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/images"
	"github.com/capstan-dev/capstan/kube/mode"
)

// TestEndpoints checks that requests at the hollow endpoint of a host get hollow pods, and that requests at the other
// endpoint are refused if the host can't run containers.
func TestEndpoints(t *testing.T) {
	dir := t.TempDir()
	opts := options(t, dir)
	opts.Images = images.New(filepath.Join(dir, "no-store"), dir)
	opts.Unable = errors.New("something is missing here")
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	listen := func(name string) net.Listener {
		listener, err := listenUnix("unix://" + filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
	served := make(chan error, 1)
	endpoints := []Endpoint{{Listener: listen("real")}, {Listener: listen("hollow"), Hollow: true}}
	go func() { served <- s.Serve(ctx, endpoints...) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-served, s.Close()); err != nil {
			t.Error(err)
		}
	})

	hollow := dial(t, filepath.Join(dir, "hollow"))
	answer, err := hollow.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil || !mode.Parse(mode.RuntimeName, answer.GetInfo()).Hollow {
		t.Errorf("status at the hollow endpoint: %v, %v", answer, err)
	}
	image := &runtimeapi.ImageSpec{Image: "registry.example/any:1"}
	if _, err := hollow.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: image}); err != nil {
		t.Errorf("pulling at the hollow endpoint: %v", err)
	}
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "a", Namespace: "b", Uid: "c"}}
	pod, err := hollow.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil || s.sandboxes[pod.PodSandboxId].Real {
		t.Errorf("a pod at the hollow endpoint: %v, %v", pod, err)
	}
	_, err = dial(t, filepath.Join(dir, "real")).Version(ctx, &runtimeapi.VersionRequest{})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "something is missing here") {
		t.Errorf("the other endpoint: %v, want it refused with the reason", err)
	}
}

// TestServeEndsWithAnEndpoint checks that a server stops when one of its endpoints fails. Otherwise it would look
// healthy at the other one.
func TestServeEndsWithAnEndpoint(t *testing.T) {
	dir := t.TempDir()
	s, err := New(options(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var endpoints []Endpoint
	for _, name := range []string{"one", "two"} {
		listener, err := listenUnix("unix://" + filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		endpoints = append(endpoints, Endpoint{Listener: listener})
	}
	endpoints[1].Listener.Close()
	if err := s.Serve(t.Context(), endpoints...); err == nil {
		t.Error("no error")
	}
}

func TestHollowIsRecorded(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		before map[string]string // files of the state directory
		asked  *bool
		want   bool
		record string
	}{
		"a fresh directory":                        {nil, nil, false, "real"},
		"a directory that has pods and no record":  {map[string]string{"sandboxes/a.json": "{}"}, nil, true, "hollow"},
		"a directory recorded as real":             {map[string]string{"mode": "real\n"}, nil, false, "real"},
		"a directory recorded as hollow":           {map[string]string{"mode": "hollow\n"}, nil, true, "hollow"},
		"the request overrides a record of hollow": {map[string]string{"mode": "hollow\n"}, &no, false, "hollow"},
		"the request overrides a record of real":   {map[string]string{"mode": "real\n"}, &yes, true, "real"},
		"the request is not recorded":              {nil, &no, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := store{t.TempDir()}
			for file, text := range c.before {
				if err := write(filepath.Join(s.dir, file), []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := s.hollow(c.asked)
			record, _ := os.ReadFile(filepath.Join(s.dir, "mode"))
			if err != nil || got != c.want || strings.TrimSpace(string(record)) != c.record {
				t.Errorf("hollow %t, recorded %q, %v; want %t, %q", got, record, err, c.want, c.record)
			}
		})
	}
}

// TestStoreErrors checks that each refusal of the image store gets the matching code.
func TestStoreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want codes.Code
	}{
		"no such image":           {&images.Error{Code: "NotFound", Message: "m"}, codes.NotFound},
		"another credential":      {&images.Error{Code: "Denied", Message: "m"}, codes.PermissionDenied},
		"an invalid name":         {&images.Error{Code: "Invalid", Message: "m"}, codes.InvalidArgument},
		"an unavailable registry": {&images.Error{Code: "Unavailable", Message: "m"}, codes.Unavailable},
		"a full disk":             {&images.Error{Code: "NoSpace", Message: "m"}, codes.ResourceExhausted},
		"an unknown code":         {&images.Error{Code: "Other", Message: "m"}, codes.Internal},
		"no store":                {os.ErrNotExist, codes.Unavailable},
		"a canceled request":      {context.Canceled, codes.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			if got := status.Code(storeError(errors.Join(errors.New("pulling"), c.err))); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
