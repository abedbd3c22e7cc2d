package clusterctl

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"

	"github.com/capstan-dev/capstan/clusterctl/podless"
	"github.com/capstan-dev/capstan/internal/hint"
)

// ParseBinaries parses NAME=PATH arguments, where NAME is a provider in the request. It returns a map from names to
// absolute paths. It fails if a file cannot run on this machine.
func ParseBinaries(given []string, request Request) (map[string]string, error) {
	known := map[string]int{} // how many providers a name matches
	for kind, refs := range request {
		for _, ref := range refs {
			name, _ := parse(ref)
			known[name]++
			if label := clusterctlv1.ManifestLabel(name, kind); label != name {
				known[label]++
			}
		}
	}
	binaries := map[string]string{}
	var errs []error
	for _, text := range given {
		name, path, ok := strings.Cut(text, "=")
		switch name = strings.ToLower(name); {
		case !ok || name == "" || path == "":
			errs = append(errs, fmt.Errorf("%q is not NAME=PATH, such as docker=/opt/capd", text))
		case binaries[name] != "":
			errs = append(errs, fmt.Errorf("provider %s has two binaries", name))
		case known[name] == 0:
			errs = append(errs, fmt.Errorf("a binary was given for %s, which is not one of the named providers", name))
		case known[name] > 1:
			errs = append(errs, fmt.Errorf("%s is the name of several providers: say which, such as infrastructure-%s=%s", name,
				name, path))
		default:
			absolute, err := filepath.Abs(path)
			binaries[name] = absolute
			errs = append(errs, err, runnable(absolute))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, hint.Errorf("for example: --infrastructure docker --provider-binary docker=/opt/capd", "%w", err)
	}
	return binaries, nil
}

// machines maps a GOARCH to the architecture that the header of a Linux program names.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// runnable fails if a file is not a program for this machine.
func runnable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("looking at the binary: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not executable: it must be the program that the provider's image has, with mode 0755", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("looking at the binary: %w", err)
	}
	defer f.Close()
	head := make([]byte, 2)
	if _, err := io.ReadFull(f, head); err == nil && string(head) == "#!" {
		return nil // a script that starts the program
	}
	program, err := elf.NewFile(f)
	if err != nil {
		return fmt.Errorf("%s is not a program for Linux: %w", path, err)
	}
	if want, ok := machines[runtime.GOARCH]; ok && program.Machine != want {
		return fmt.Errorf("%s is for another architecture (%s): build it for %s", path, program.Machine, runtime.GOARCH)
	}
	return nil
}

// binary returns the program that runs in place of a provider's Pods, or "".
func (c *Client) binary(name string, kind clusterctlv1.ProviderType) string {
	if path := c.binaries[clusterctlv1.ManifestLabel(name, kind)]; path != "" {
		return path
	}
	return c.binaries[name]
}

// repository opens the repository of a provider. If a binary was given for the provider, the components are rewritten
// to run this binary.
func (c *Client) repository(ctx context.Context, p config.Provider, settings config.Client,
	options ...repository.Option) (repository.Client, error) {
	all, err := c.own.open(ctx, p, settings, options...)
	path := c.binary(p.Name(), p.Type())
	if err != nil || path == "" || !c.Embedded() {
		return all, err
	}
	return podlessRepository{all, c, path}, nil
}

// podlessRepository is the repository of a provider that runs as a process.
type podlessRepository struct {
	repository.Client
	plane  *Client
	binary string
}

// Components returns a client for the rewritten components.
func (r podlessRepository) Components() repository.ComponentsClient {
	return podlessComponents{r.Client.Components(), r}
}

type podlessComponents struct {
	repository.ComponentsClient
	from podlessRepository
}

// Get reads and rewrites the components.
func (c podlessComponents) Get(ctx context.Context, o repository.ComponentsOptions) (repository.Components, error) {
	components, err := c.ComponentsClient.Get(ctx, o)
	if err != nil {
		return nil, err
	}
	plane, label := c.from.plane, components.ManifestLabel()
	taken, err := plane.taken(ctx, label)
	if err != nil {
		return nil, err
	}
	return components, repository.AlterComponents(components,
		func(objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
			objects, ports, err := podless.Rewrite(objects, podless.Options{Binary: c.from.binary, Taken: taken})
			if err != nil {
				return nil, fmt.Errorf("it can't run as a process: %w", err)
			}
			plane.ports[label] = ports
			return objects, nil
		})
}

// InstalledError reports that a provider is already installed and runs another program, which an installation would not
// change. An upgrade, even to the same version, changes the program.
type InstalledError struct {
	Provider Provider
	// Version is the requested version, Binary the requested program.
	Version, Binary string
	// Runs are the programs that the provider runs now.
	Runs []string
}

func (e *InstalledError) Error() string {
	runs := "without a binary"
	if len(e.Runs) > 0 {
		runs = "and runs " + strings.Join(e.Runs, ", ")
	}
	return fmt.Sprintf("%s is installed at %s %s: installing it again would not make it run %s",
		e.Provider.Label(), e.Provider.Version, runs, e.Binary)
}

// mayRun fails if a program is requested for a provider that is already installed and runs another one.
func (c *Client) mayRun(ctx context.Context, kind clusterctlv1.ProviderType, ref string) error {
	name, version := parse(ref)
	path := c.binary(name, kind)
	i := slices.IndexFunc(c.Installed, func(p Provider) bool { return p.Type == kind && p.Name == name })
	if path == "" || i < 0 {
		return nil
	}
	all, err := c.processes(ctx)
	if err != nil {
		return err
	}
	return other(c.Installed[i], cmp.Or(version, c.Installed[i].Version), path, all)
}

// other returns an error if the Deployments of a provider do not name the requested program.
func other(p Provider, version, path string, all []appsv1.Deployment) error {
	var runs []string
	for _, d := range all {
		if d.Labels[clusterv1.ProviderNameLabel] == p.Label() {
			runs = append(runs, d.Annotations[podless.BinaryAnnotation])
		}
	}
	if slices.Equal(runs, []string{path}) {
		return nil
	}
	return &InstalledError{Provider: p, Version: version, Binary: path, Runs: runs}
}

// processes returns the Deployments that run as processes.
func (c *Client) processes(ctx context.Context) ([]appsv1.Deployment, error) {
	api, err := connect(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list := &appsv1.DeploymentList{}
	if err := api.List(ctx, list); err != nil {
		return nil, fmt.Errorf("looking for providers that are processes: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool {
		_, ok := d.Annotations[podless.BinaryAnnotation]
		return !ok
	}), nil
}

// taken returns the ports of providers that run as processes or are about to. It leaves out the ports of the provider
// whose label is except, because that provider is about to be replaced.
func (c *Client) taken(ctx context.Context, except string) ([]int, error) {
	all, err := c.processes(ctx)
	if err != nil {
		return nil, err
	}
	var ports []int
	for label, chosen := range c.ports {
		if label != except {
			ports = append(ports, chosen...)
		}
	}
	for i := range all {
		if all[i].Labels[clusterv1.ProviderNameLabel] != except {
			ports = append(ports, podless.Ports(&all[i])...)
		}
	}
	return ports, nil
}
