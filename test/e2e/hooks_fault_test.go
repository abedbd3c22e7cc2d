package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/long"
)

// What can happen to an extension and to the plane.
const (
	killed        = "the extension's process is killed"
	hanging       = "the extension hangs"
	noCertificate = "the extension has lost its certificate"
	redeployed    = "the extension is redeployed, with other names of handlers"
	planeKilled   = "the plane is killed"
)

// disasters causes one disaster after the other. They hit the plane, or extension one, which blocks a hook. Each time,
// the Cluster says what is wrong, nothing continues, and once the cause is gone, the extension is called again. In the
// end it still blocks. Unless long tests are enabled, only some of the disasters happen.
func (a *actor) disasters(t *testing.T, cluster, hook string, some ...string) {
	t.Helper()
	times := 0
	blocksAgain := func() {
		t.Helper()
		times++
		l := line{blocks, fmt.Sprintf("wait %d at %s", times, hook), time.Second}
		a.tell(one, hook, l)
		condition(t, cluster, l.Message)
	}
	blocksAgain()
	before := shape(t, cluster)
	for _, d := range []struct {
		name string
		run  func()
	}{
		{killed, func() {
			a.kill()
			condition(t, cluster, hook, "."+one, "connect: connection refused")
			a.start()
		}},
		{hanging, func() {
			a.signal(syscall.SIGSTOP) // the kernel still accepts connections
			condition(t, cluster, hook, "."+one, "it did not answer within 5s")
			a.signal(syscall.SIGCONT)
		}},
		{noCertificate, func() {
			a.kill()
			if err := os.RemoveAll(filepath.Join(a.dir, certificateDir)); err != nil {
				t.Fatal(err)
			}
			a.start()
			condition(t, cluster, hook, "."+one, "certificate signed by unknown authority")
			for _, extension := range []string{one, two, ignored} {
				a.register(extension)
			}
		}},
		{redeployed, func() {
			a.kill()
			suffix := "-" + strings.ToLower(hook)
			a.name(one, suffix)
			a.start()
			eventually(t, "the new handler is called", func() error {
				calls := a.calls(one, hook)
				if last := calls[len(calls)-1]; !strings.HasSuffix(last.Handler, suffix) {
					return fmt.Errorf("the last call was of handler %s", last.Handler)
				}
				return nil
			})
		}},
		{planeKilled, func() {
			if err := kill("plane", "", false); err != nil {
				t.Fatal(err)
			}
			must(t, "up")
			a.asks(one, hook, 1)
		}},
	} {
		if !slices.Contains(some, d.name) && !long.Enabled() {
			continue
		}
		start := time.Now()
		d.run()
		blocksAgain()
		sameShape(t, cluster, d.name+" at "+hook+";", before)
		t.Logf("%s at %s: %s", d.name, hook, time.Since(start).Round(100*time.Millisecond))
	}
}

// TestExtensionsFailInALife: extensions and the plane fail while a cluster waits for a hook, at its creation and at its
// deletion. Nothing is lost. The After... hooks follow an event. If the plane is killed before such a hook has passed,
// the hook is still called when the plane is back.
func TestExtensionsFailInALife(t *testing.T) {
	long.Need(t)
	const name = "troubled"
	a := newActor(t)
	t.Cleanup(func() { a.remove(name) })
	a.tell(one, "BeforeClusterCreate", line{blocks, "not yet", time.Second})
	must(t, "cluster", "create", name, "--workers", "0", "--wait=false")
	a.disasters(t, name, "BeforeClusterCreate", killed, hanging, redeployed)

	a.tell(one, "AfterControlPlaneInitialized", line{Manner: fails, Message: "not in the mood"})
	a.tell(one, "BeforeClusterCreate", line{})
	condition(t, name, "AfterControlPlaneInitialized", "not in the mood")
	pending := func() string {
		return must(t, "kubectl", "get", "cluster", name, "-o",
			`jsonpath={.metadata.annotations.runtime\.cluster\.x-k8s\.io/pending-hooks}`)
	}
	if hooks := pending(); hooks != "AfterControlPlaneInitialized" {
		t.Errorf("pending hooks are %q, want AfterControlPlaneInitialized", hooks)
	}
	if err := kill("plane", "", false); err != nil {
		t.Fatal(err)
	}
	must(t, "up")
	a.asks(one, "AfterControlPlaneInitialized", 1)
	a.tell(one, "AfterControlPlaneInitialized", line{})
	converges(t, name, 1)
	eventually(t, "no hook is pending", func() error {
		if hooks := pending(); hooks != "" {
			return fmt.Errorf("pending hooks are %s", hooks)
		}
		return nil
	})
	t.Attr("rule", "LH-27")

	a.tell(one, "BeforeClusterDelete", line{blocks, "not yet", time.Second})
	must(t, "kubectl", "delete", "cluster", name, "--wait=false")
	a.disasters(t, name, "BeforeClusterDelete", noCertificate, planeKilled)
	a.tell(one, "BeforeClusterDelete", line{})
	vanishes(t, name)
	if order := moments(t, name, one, two); !slices.Equal(order,
		[]string{"BeforeClusterCreate", "AfterControlPlaneInitialized", "BeforeClusterDelete"}) {
		t.Errorf("want each hook once, from creation to deletion, got the order %v", order)
	}
}
