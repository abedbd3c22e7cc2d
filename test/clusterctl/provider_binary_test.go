//go:build linux

package clusterctl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/podless"
	"github.com/capstan-dev/capstan/plane/providers"
	"github.com/capstan-dev/capstan/test/long"
)

// TestProviderBinary: a provider whose controller would need a Pod runs as a process of the plane, with webhook,
// conversion and the rights of its ServiceAccount. It is restarted if it or the plane is killed, replaced by an
// upgrade, and stopped when the provider is deleted.
func TestProviderBinary(t *testing.T) {
	long.Need(t)
	if podless.BinaryAnnotation != providers.BinaryAnnotation {
		t.Fatalf("clusterctl annotates with %s, the plane looks for %s", podless.BinaryAnnotation, providers.BinaryAnnotation)
	}
	e := newEmbedded(t)
	e.tellProviders()
	binary := e.tiny()
	config := []string{"--config", e.config, "--addon"}
	with := func(version string) []string {
		return append(config, "tiny:"+version, "--provider-binary", "tiny="+binary)
	}
	e.fails("--provider-binary", append([]string{"init"}, append(config, "tiny")...)...)
	e.fails("not one of the named providers", append([]string{"init", "--provider-binary", "other=" + binary},
		append(config, "tiny")...)...)
	e.fails("not executable", append([]string{"init", "--provider-binary", "tiny=" + e.config},
		append(config, "tiny")...)...)
	e.fails("can't use a program on this", append([]string{"init", "--kubeconfig", e.kubeconfig}, with("v1.0.0")...)...)

	wee := filepath.Join(e.home, "wee")
	e.must(os.Symlink(binary, wee))
	e.works(
		append([]string{"clusterctl", "init", "--wait-providers", "--wait-provider-timeout", startTime, "--addon",
			"wee:v1.0.0", "--provider-binary", "wee=" + wee}, with("v1.0.0")...)...)
	other := e.process(wee)
	first := e.process(binary)
	e.testThings("v1.0.0")

	// Repeating the command changes nothing. The same command with another program is refused, and the plane may not
	// run that program.
	another := filepath.Join(e.home, "another")
	e.must(os.Symlink(binary, another))
	e.works(append([]string{"clusterctl", "init"}, with("v1.0.0")...)...)
	e.fails("upgrade apply --addon tiny:v1.0.0 --provider-binary addon-tiny="+another,
		append([]string{"init", "--provider-binary", "tiny=" + another}, append(config, "tiny")...)...)
	if text, err := os.ReadFile(filepath.Join(e.home, "plane", "plane", "provider-binaries")); err != nil ||
		strings.Contains(string(text), another) {
		e.Errorf("the plane may run a program that was refused: %q, %v", text, err)
	}

	e.must(syscall.Kill(first, syscall.SIGKILL))
	e.until("the provider runs again after it was killed",
		func() bool { pid := e.pid(binary); return pid != 0 && pid != first })
	e.until("an Event says that the provider was killed", func() bool {
		list := &eventsv1.EventList{}
		e.must(e.api.List(e.Context(), list, client.InNamespace("tiny-system")))
		for _, event := range list.Items {
			if event.Reason == "ProcessEnded" && strings.Contains(event.Note, "killed") {
				return true
			}
		}
		return false
	})
	e.testThings("v1.0.0")

	// An upgrade deletes the Deployment and creates another one, with new certificates.
	e.works(append([]string{"clusterctl", "upgrade", "apply", "--wait-providers", "--wait-provider-timeout", startTime},
		with("v1.0.1")...)...)
	e.testThings("v1.0.1")

	if pid := e.process(wee); pid != other {
		e.Errorf("the other provider was restarted: it is process %d, was %d", pid, other)
	}
	second := e.process(binary)
	e.must(syscall.Kill(e.planeProcess(), syscall.SIGKILL))
	e.until("the provider runs again after the plane was killed",
		func() bool { pid := e.pid(binary); return pid != 0 && pid != second })
	e.until("the API server answers again", func() bool { return e.api.List(e.Context(), &corev1.NamespaceList{}) == nil })
	e.testThings("v1.0.1")

	e.testNotAllowed()

	e.works(append([]string{"clusterctl", "delete", "--include-namespace"}, append(config, "tiny:v1.0.1")...)...)
	e.until("the process of the deleted provider has exited", func() bool { return e.pid(binary) == 0 })
	e.process(wee) // the other provider runs until the plane stops
	e.until("no files of the deleted provider are left", func() bool {
		left, err := filepath.Glob(filepath.Join(e.home, "plane", "plane", "providers", "tiny-system"))
		e.must(err)
		return len(left) == 0
	})
}

// startTime is how long a provider may take to start, in clusterctl's format.
const startTime = "100s"

// tellProviders logs what the plane knows about providers if the test fails.
func (e *embedded) tellProviders() {
	e.Cleanup(func() {
		if !e.Failed() {
			return
		}
		logs, _ := filepath.Glob(filepath.Join(e.home, "plane", "plane", "logs", "provider-*.log"))
		for _, path := range logs {
			text, _ := os.ReadFile(path)
			e.Logf("%s:\n%s", path, text[max(0, len(text)-8<<10):])
		}
		list := &appsv1.DeploymentList{}
		if err := e.api.List(context.Background(), list); err != nil {
			e.Logf("listing Deployments: %v", err)
		}
		for _, d := range list.Items {
			e.Logf("Deployment %s: %+v", d.Name, d.Status)
		}
	})
}

// tiny adds the small provider to the repository, in two versions, and another provider with the same ports. It returns
// the path of the program.
func (e *embedded) tiny() string {
	e.Helper()
	text, err := os.ReadFile("testdata/tiny.yaml")
	e.must(err)
	const metadata = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n" +
		"releaseSeries: [{major: 1, minor: 0, contract: v1beta2}]\n"
	for _, version := range []string{"v1.0.0", "v1.0.1"} {
		released := bytes.ReplaceAll(text, []byte("RELEASE"), []byte(version))
		for _, name := range []string{"tiny", "wee"} {
			e.provide(name, "AddonProvider", version, map[string][]byte{
				"addon-components.yaml": bytes.ReplaceAll(released, []byte("tiny"), []byte(name)),
				"metadata.yaml":         []byte(metadata),
			})
		}
	}
	binary := filepath.Join(e.home, "tiny")
	self, err := os.Executable()
	e.must(err)
	e.must(os.Symlink(self, binary))
	return binary
}

// provide adds a version of a provider to the repository. clusterctl's configuration names the components file.
func (e *embedded) provide(name, kind, version string, files map[string][]byte) {
	e.Helper()
	dir := filepath.Join(e.home, "others", strings.ToLower(strings.TrimSuffix(kind, "Provider"))+"-"+name)
	e.must(os.MkdirAll(filepath.Join(dir, version), 0o700))
	for file, text := range files {
		e.must(os.WriteFile(filepath.Join(dir, version, file), text, 0o600))
	}
	config, err := os.ReadFile(e.config)
	e.must(err)
	if bytes.Contains(config, []byte(dir)) {
		return
	}
	components := strings.ToLower(strings.TrimSuffix(kind, "Provider")) + "-components.yaml"
	e.must(
		os.WriteFile(e.config, fmt.Appendf(config, "  - {name: %s, type: %s, url: %q}\n", name, kind,
			"file://"+filepath.Join(dir, version, components)), 0o600))
}

// testThings tests the provider's webhook, its conversion and its controller.
func (e *embedded) testThings(release string) {
	e.Helper()
	thing := func(apiVersion string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetAPIVersion("tiny.example.com/" + apiVersion)
		o.SetKind("Thing")
		o.SetNamespace("default")
		o.SetName("thing")
		return o
	}
	many := thing("v1")
	many.Object["count"] = int64(10)
	e.until("the provider's webhook refuses an invalid object", func() bool {
		err := e.api.Create(e.Context(), many.DeepCopy())
		if err == nil { // the API server sees new webhook configurations a moment later
			e.must(e.api.Delete(e.Context(), many.DeepCopy()))
			return false
		}
		return strings.Contains(err.Error(), "that is more than 9")
	})
	few := thing("v1alpha1")
	few.Object["size"] = int64(3)
	// The API server also needs a moment to see a new certificate authority of the conversion webhook.
	e.until("an object is created in the older version",
		func() bool { return e.api.Create(e.Context(), few.DeepCopy()) == nil })
	e.until("the provider's controller has seen the object, and may not read Secrets", func() bool {
		now := thing("v1")
		e.must(e.api.Get(e.Context(), client.ObjectKeyFromObject(now), now))
		if now.Object["count"] != int64(3) {
			e.Fatalf("the object that was created in the older version was not converted: %v", now.Object)
		}
		return now.GetAnnotations()[seen] == release+" Forbidden"
	})
	e.must(e.api.Delete(e.Context(), few))
	e.until("the object is gone", func() bool {
		return apierrors.IsNotFound(e.api.Get(e.Context(), client.ObjectKeyFromObject(few), thing("v1")))
	})
}

// testNotAllowed checks that a Deployment alone can't run a program of this machine.
func (e *embedded) testNotAllowed() {
	e.Helper()
	mark := filepath.Join(e.home, "ran")
	labels := map[string]string{"a": "b"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "shell", Annotations: map[string]string{providers.BinaryAnnotation: "/bin/sh"},
		},
	}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "manager", Image: "example.com/x", Args: []string{"-c", "echo > " + mark}},
	}
	e.must(e.api.Create(e.Context(), d))
	e.until("the Deployment says why it doesn't run", func() bool {
		e.must(e.api.Get(e.Context(), client.ObjectKeyFromObject(d), d))
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentAvailable {
				return c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "may not run here")
			}
		}
		return false
	})
	if _, err := os.Stat(mark); err == nil {
		e.Error("a Deployment has run a program that the user has not allowed")
	}
	e.must(e.api.Delete(e.Context(), d))
}

// process waits for the only process of a program.
func (e *embedded) process(path string) (pid int) {
	e.Helper()
	e.until(path+" runs", func() bool { pid = e.pid(path); return pid != 0 })
	return pid
}

// planeProcess returns the pid of the plane's process, which runs all controllers.
func (e *embedded) planeProcess() int {
	e.Helper()
	pid := e.find(func(args []string) bool {
		return args[0] == e.capstan && args[1] == "plane" && strings.Contains(strings.Join(args, " "), e.home)
	})
	if pid == 0 {
		e.Fatal("the plane's process was not found")
	}
	return pid
}

// pid returns the pid of a program's process, or 0 if there is none.
func (e *embedded) pid(path string) int {
	return e.find(func(args []string) bool { return args[0] == path })
}

// find returns the pid of a process by its command line, or 0 if there is none.
func (e *embedded) find(match func(args []string) bool) int {
	e.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	e.must(err)
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			continue // it has exited
		}
		if match(append(strings.Split(string(text), "\x00"), "")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			e.must(err)
			return pid
		}
	}
	return 0
}
