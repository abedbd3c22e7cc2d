package before

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpgradeOfAPlaneThatRuns starts a plane of the previous release with a cluster. While the cluster keeps running,
// it replaces the plane by today's release, then by the previous one, then by today's again; the cluster grows under
// each. No host and no process on a host is restarted, and no object is recreated. In the end today's release stops and
// starts everything.
func TestUpgradeOfAPlaneThatRuns(t *testing.T) {
	before, now := releases(t)
	p := newPlace(t, now)
	p.install(before)
	p.must("up", "--hosts", "4")
	p.must("cluster", "create", "demo", "--workers", "1")
	p.works(2)

	p.replaced(now)
	p.grows(2)
	p.replaced(before)
	p.grows(3)
	p.replaced(now)
	was := p.state()
	p.must("down")
	p.must("up")
	p.works(4)
	p.compare("objects", was.objects, p.state().objects)
	p.must("cluster", "delete", "demo")
}

// TestUpgradeFromAnotherDirectory: a release in another directory refuses to start while the dock of the first release
// runs, and changes nothing. After "capstan down", it starts with the data on the disk. After another "capstan down",
// the first release does so, too.
func TestUpgradeFromAnotherDirectory(t *testing.T) {
	before, now := releases(t)
	p := newPlace(t, now)
	p.install(before)
	other := newPlace(t, now)
	other.home = p.home
	other.install(now)

	p.must("up", "--hosts", "3")
	p.must("cluster", "create", "demo", "--workers", "1")
	p.works(2)
	was, plane, chosen := p.state(), p.plane(), p.chosen()
	words := []string{"a dock is already running", p.dir, other.dir, "capstan down", "install these binaries in " + p.dir}
	other.refused(words, "up", "--hosts", "5", "--rotate-keys")
	if is := p.plane(); is.PID != plane.PID || !is.Since.Equal(plane.Since) {
		t.Errorf("the refused start has replaced the plane: it is %+v, was %+v", is, plane)
	}
	p.compare("choices", chosen, p.chosen())
	p.same(was)

	p.must("down")
	other.must("up")
	other.works(2)
	other.compare("objects", was.objects, other.state().objects)
	p.refused([]string{"a dock", "already", "capstan down"}, "up")

	other.must("down")
	p.must("up")
	p.works(2)
	p.compare("objects", was.objects, p.state().objects)
	p.must("cluster", "delete", "demo")
}

// chosen returns the user's choices that the home directory stores.
func (p *place) chosen() []string {
	p.Helper()
	data, err := os.ReadFile(filepath.Join(p.home, "up.json"))
	if err != nil {
		p.Fatal(err)
	}
	return []string{string(data)}
}

// replaced installs a release over the one whose plane is running, starts it, and compares everything that must not
// change.
func (p *place) replaced(by release) {
	p.Helper()
	was, plane := p.state(), p.plane().PID
	p.install(by)
	p.must("up")
	if p.plane().PID == plane {
		p.Errorf("%s: the plane of the replaced release still runs", by.name)
	}
	p.runsWhatIsInstalled()
	p.works(len(was.nodes))
	p.same(was)
}

// grows adds a worker to the cluster. Its host gets the agent of the installed release.
func (p *place) grows(workers int) {
	p.Helper()
	installed := filepath.Join(p.dir, "capstan-agent")
	was := len(p.processesOf(installed))
	p.must("cluster", "scale", "demo", "--workers", fmt.Sprint(workers))
	p.works(workers + 1)
	if is := len(p.processesOf(installed)); is != was+1 {
		p.Errorf("%d hosts run the installed agent, want %d", is, was+1)
	}
}

// works waits until all Machines of the cluster are available, which needs the plane's controllers, hosts and Nodes.
func (p *place) works(machines int) {
	p.Helper()
	p.eventually("all machines are available", func() error {
		out := p.must("kubectl", "get", "machines", "-o", `jsonpath={range .items[*]}{.metadata.name}{" "}`+
			`{.status.conditions[?(@.type=="Available")].status}{"\n"}{end}`)
		if strings.Count(out, " True\n") != machines || strings.Count(out, "\n") != machines {
			return fmt.Errorf("want %d available machines, got:\n%s", machines, out)
		}
		return nil
	})
}
