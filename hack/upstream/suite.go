package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// suite is the program with the specs.
type suite struct {
	// root is the root of our sources, dir a temporary directory, and binary the program's path.
	root, dir, binary string
	// module is the directory of upstream's module with the specs; flags are the flags for building with it.
	module    string
	flags     []string
	out, errs io.Writer
}

// artifacts returns the directory where the specs store objects and logs.
func (s *suite) artifacts() string { return filepath.Join(s.root, "bin", "reports", "upstream") }

func (s *suite) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(s.root, "test", "upstream")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	cmd.Stderr = s.errs
	return cmd
}

// build builds the specs and finds their sources.
func (s *suite) build(ctx context.Context, clusterAPI string) error {
	fmt.Fprintln(s.errs, "→ building the specs")
	if clusterAPI != "" {
		modfile, err := s.replace(ctx, clusterAPI)
		if err != nil {
			return err
		}
		s.flags = []string{"-modfile", modfile, "-mod=mod"}
	}
	build := slices.Concat([]string{"test"}, s.flags, []string{"-c", "-o", s.binary, "."})
	if err := s.goCommand(ctx, build...).Run(); err != nil {
		return fmt.Errorf("building the specs: %w", err)
	}
	list := slices.Concat([]string{"list"}, s.flags, []string{"-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api/test"})
	module, err := s.goCommand(ctx, list...).Output()
	if err != nil {
		return fmt.Errorf("finding the sources of the specs: %w", err)
	}
	s.module = strings.TrimSpace(string(module))
	return nil
}

// replace creates a go.mod in the temporary directory that takes Cluster API's modules from a checkout.
func (s *suite) replace(ctx context.Context, clusterAPI string) (modfile string, err error) {
	if clusterAPI, err = filepath.Abs(clusterAPI); err != nil {
		return "", err
	}
	modfile = filepath.Join(s.dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(s.root, "test", "upstream", name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	err = s.goCommand(ctx, "mod", "edit",
		"-replace", "sigs.k8s.io/cluster-api="+clusterAPI,
		"-replace", "sigs.k8s.io/cluster-api/api="+filepath.Join(clusterAPI, "api"),
		"-replace", "sigs.k8s.io/cluster-api/test="+filepath.Join(clusterAPI, "test"), modfile).Run()
	return modfile, err
}

// configure writes configuration and templates for the plane.
func (s *suite) configure(ctx context.Context, p plane) (path string, err error) {
	providers, err := p.providers(ctx)
	if err != nil {
		return "", err
	}
	from := sources{
		ours:   os.DirFS(filepath.Join(s.root, "templates")),
		theirs: os.DirFS(filepath.Join(s.module, "e2e", "data", "infrastructure-docker", "main")),
	}
	templates, err := from.templates()
	if err != nil {
		return "", err
	}
	upstream, err := os.ReadFile(filepath.Join(s.module, "e2e", "config", "docker.yaml"))
	if err != nil {
		return "", err
	}
	variables, err := s.variables()
	if err != nil {
		return "", err
	}
	return writeConfig(s.dir, upstream, providers, templates, variables)
}

// variables returns the variables of upstream's configuration that have other values here.
func (s *suite) variables() (map[string]string, error) {
	variables := map[string]string{"IP_FAMILY": "IPv4"}
	for variable, file := range map[string]string{
		"KUBERNETES_VERSION": "DEFAULT_VERSION", "KUBERNETES_VERSION_UPGRADE_TO": "DEFAULT_VERSION",
		"KUBERNETES_VERSION_UPGRADE_FROM": "PREVIOUS_VERSION", "KUBERNETES_VERSION_CHAINED_UPGRADE_FROM": "OLDEST_VERSION",
	} {
		var err error
		if variables[variable], err = bundleVersion(s.root, file); err != nil {
			return nil, err
		}
	}
	// Local hosts need no network plugin, so the ClusterResourceSet only puts a ConfigMap into clusters.
	addon := filepath.Join(s.dir, "addon.yaml")
	variables["CNI"] = addon
	return variables, os.WriteFile(addon,
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: upstream-e2e\n  namespace: kube-system\n"), 0o600)
}

// cleanTimeout limits how long an interrupted suite may take to exit: specs remove their clusters, and the report is
// written last.
const cleanTimeout = 10 * time.Minute

// run runs specs on a plane, and writes their report and a description of the run to the directory of artifacts. Failed
// specs are not an error.
func (s *suite) run(ctx context.Context, p plane, config string, chosen []spec, about execution) error {
	names := make([]string, 0, len(chosen))
	for _, c := range chosen {
		names = append(names, c.Name)
	}
	if err := os.RemoveAll(s.artifacts()); err != nil {
		return err
	}
	if err := os.MkdirAll(s.artifacts(), 0o755); err != nil {
		return err
	}
	if err := about.write(s.artifacts()); err != nil {
		return err
	}
	result := filepath.Join(s.artifacts(), reportFile)
	cmd := exec.CommandContext(ctx, s.binary, "-test.timeout=0", "-ginkgo.v", "-ginkgo.no-color",
		"-ginkgo.timeout=24h", "-ginkgo.label-filter="+strings.Join(names, " || "), "-ginkgo.json-report="+result,
		"-e2e.config="+config, "-e2e.artifacts="+s.artifacts(), "-e2e.kubeconfig="+p.kubeconfig(),
		"-e2e.capstan="+p.capstan, "-e2e.home="+p.home)
	cmd.Dir = filepath.Join(s.root, "test", "upstream")
	cmd.Stdout, cmd.Stderr = s.out, s.errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = cleanTimeout
	cmd.Env = environment(
		os.Environ(),
		map[string]string{"GOPROXY": "off", "KUBECONFIG": p.kubeconfig(), "TMPDIR": s.dir},
	)
	runErr := cmd.Run()
	if _, err := os.Stat(result); err != nil {
		return fmt.Errorf("running the specs: %w", runErr)
	}
	return nil
}

// environment replaces variables.
func environment(have []string, replaced map[string]string) (environ []string) {
	for _, pair := range have {
		name, _, _ := strings.Cut(pair, "=")
		if _, ok := replaced[name]; !ok {
			environ = append(environ, pair)
		}
	}
	for name, value := range maps.All(replaced) {
		environ = append(environ, name+"="+value)
	}
	return environ
}
