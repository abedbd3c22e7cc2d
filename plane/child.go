//go:build linux

package plane

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/process"
	"github.com/capstan-dev/capstan/plane/controllers"
	"github.com/capstan-dev/capstan/plane/providers"
)

// childGrace is how long a child may take to exit when asked to.
const childGrace = 5 * time.Second

// child returns a process of the plane that runs an applet of the bundle.
func (p *plane) child(name, applet string, args ...string) process.Process {
	return process.Process{
		Name: name,
		Path: p.opts.Kube,
		Args: append([]string{applet}, args...),
		Env:  childEnv(os.Environ()),
		Dir:  p.Dir,
		Log:  filepath.Join(p.Logs, name+".log"),
		// The plane's lock becomes free once the last child is gone.
		Files: []*os.File{p.lock},
		Grace: childGrace,
	}
}

// childEnv returns the part of an environment that children inherit. It drops the rest, because etcd reads settings
// from its environment.
func childEnv(environ []string) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ"} {
		for _, v := range environ {
			if len(v) > len(name) && v[:len(name)] == name && v[len(name)] == '=' {
				env = append(env, v)
			}
		}
	}
	return slices.Clip(env)
}

// children returns the processes added by the caller, with empty fields filled in.
func (p *plane) children() []process.Process {
	if p.opts.Children == nil {
		return nil
	}
	children := p.opts.Children(p.Info)
	for i := range children {
		c := &children[i]
		if c.Env == nil {
			c.Env = childEnv(os.Environ())
		}
		if c.Log == "" {
			c.Log = filepath.Join(p.Logs, c.Name+".log")
		}
		if c.Grace == 0 {
			c.Grace = childGrace
		}
		c.Files = append(c.Files, p.lock)
	}
	return children
}

// runtimeClient creates the client for runtime extensions.
func (p *plane) runtimeClient(ctx context.Context, mgr ctrl.Manager) (runtimeclient.Client, error) {
	return p.opts.RuntimeClient(ctx, mgr, p.Info)
}

// providers adds the controller that runs other providers as processes of the plane.
func (p *plane) providers(_ context.Context, mgr ctrl.Manager, _ controllers.Deps) error {
	return providers.Setup(mgr, providers.Options{
		Dir: p.Dir, Logs: p.Logs, Server: p.Server, CA: p.PKI.CA.Cert, Env: childEnv(os.Environ()), Files: []*os.File{p.lock},
		Grace: childGrace,
	})
}
