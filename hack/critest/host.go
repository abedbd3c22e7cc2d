package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/idrange"
	"github.com/capstan-dev/capstan/test/images"
	"github.com/capstan-dev/capstan/test/verdicts"
)

// Paths of the server in the host.
const (
	serverSocket = "/run/critest.sock"
	serverState  = "/var/lib/capstan/critest"
	reportInside = "/var/lib/capstan/critest.xml"
)

// suite runs the suite in a host, in a separate dock, and writes its report.
func (o *options) suite(ctx context.Context, report string) (err error) {
	home, err := os.MkdirTemp("", "capstan-critest-home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	served := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer served.Close()
	if err := o.offer(ctx, served, home); err != nil {
		return err
	}
	client, err := dock.Start(ctx, dock.Options{Home: home, BinDir: o.bin(), InotifyInstances: 8})
	if err != nil {
		return err
	}
	defer client.Close()
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, client.Shutdown(last))
	}()
	// Normally the kubelet tells the server its Node's range of pod addresses; the server stores it in this file.
	ranges := dock.File{Path: serverState + "/network", Mode: 0o600, Data: []byte("10.244.0.0/24\n")}
	host, err := client.EnsureHost(ctx, dock.HostSpec{Name: "critest", Files: []dock.File{ranges}})
	if err != nil {
		return err
	}
	switch {
	case os.Geteuid() == 0:
		o.level = verdicts.AllIDs
	case host.IDs == idrange.Size:
		o.level = verdicts.SubordinateIDs
	default:
		o.level = verdicts.OneID
	}
	if o.subordinate && o.level != verdicts.SubordinateIDs {
		return fmt.Errorf("the host has %d ids, want %d: newuidmap must be installed and setuid root", host.IDs, idrange.Size)
	}
	stop, err := o.serve(ctx, host)
	if err != nil {
		return err
	}
	defer stop()
	logged, err := os.Create(filepath.Join(o.reports(), "critest.log"))
	if err != nil {
		return err
	}
	defer logged.Close()
	fmt.Fprintln(o.errs, "→ running the suite")
	args := []string{
		"-runtime-endpoint=unix://" + serverSocket, "-ginkgo.no-color", "-ginkgo.timeout=35m",
		"-ginkgo.junit-report=" + reportInside, "-ginkgo.poll-progress-after=0",
	}
	if o.focus != "" {
		args = append(args, "-ginkgo.focus="+o.focus)
	}
	cmd := inside(ctx, host, append([]string{"/opt/capstan/bin/" + suiteName}, args...)...)
	cmd.Stdout, cmd.Stderr = logged, logged
	runErr := cmd.Run()
	data, err := os.ReadFile(filepath.Join(host.Root, reportInside))
	if err != nil {
		return fmt.Errorf("running the suite: %w: %w; %s has its output", runErr, err, logged.Name())
	}
	return os.WriteFile(report, data, 0o644)
}

// offer puts the images into a registry, and configures the image store of a home directory to look there first.
func (o *options) offer(ctx context.Context, served *httptest.Server, home string) error {
	fmt.Fprintln(o.errs, "→ filling a registry")
	address := strings.TrimPrefix(served.URL, "http://")
	index, err := layout.ImageIndexFromPath(o.images)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	mirrors := map[string][]string{}
	for _, m := range manifest.Manifests {
		from, err := name.ParseReference(m.Annotations[images.NameAnnotation])
		if err != nil {
			return err
		}
		to, err := name.ParseReference(
			fmt.Sprintf("%s/%s:%s", address, from.Context().RepositoryStr(), from.Identifier()),
			name.Insecure,
		)
		if err != nil {
			return err
		}
		img, err := index.Image(m.Digest)
		if err != nil {
			return err
		}
		if err := remote.Write(to, img, remote.WithContext(ctx), remote.WithTransport(http.DefaultTransport)); err != nil {
			return fmt.Errorf("putting %s into the registry: %w", from, err)
		}
		mirrors[from.Context().RegistryStr()] = []string{address}
	}
	config, err := yaml.Marshal(map[string]any{
		"mirrors": mirrors, "plainHTTP": []string{address}, "hostsMayReach": []string{address},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(home, "registries.yaml"), config, 0o644)
}

// inside returns a command in a host.
func inside(ctx context.Context, host dock.Host, argv ...string) *exec.Cmd {
	args := []string{
		"--target", strconv.Itoa(host.PID), "--user", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd",
	}
	if os.Geteuid() != 0 {
		args = append([]string{"--preserve-credentials"}, args...) // with one id, a host has no user to switch to
	}
	cmd := exec.CommandContext(ctx, "nsenter", append(append(args, "--"), argv...)...)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"TMPDIR=/tmp",
	}
	return cmd
}

// serve starts a second CRI server in the host, in addition to the host's own, and waits until it answers.
func (o *options) serve(ctx context.Context, host dock.Host) (stop func(), err error) {
	version, err := os.ReadFile(filepath.Join(o.root, "kube", "DEFAULT_VERSION"))
	if err != nil {
		return nil, err
	}
	logged, err := os.Create(filepath.Join(o.reports(), "cri.log"))
	if err != nil {
		return nil, err
	}
	cmd := inside(ctx, host, "/opt/capstan/bundles/"+strings.TrimSpace(string(version))+"/capstan-kube", "cri",
		"--hollow=false", "--listen", "unix://"+serverSocket, "--listen-hollow", "unix:///run/critest-hollow.sock",
		"--listen-real", "unix:///run/critest-real.sock", "--state", serverState)
	cmd.Stdout, cmd.Stderr = logged, logged
	if err := cmd.Start(); err != nil {
		logged.Close()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = func() {
		cmd.Process.Kill()
		<-ended
		logged.Close()
	}
	socket := filepath.Join("/proc", strconv.Itoa(host.PID), "root", serverSocket)
	for wait := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case err := <-ended:
			ended <- err
			stop()
			return nil, fmt.Errorf("the CRI server ended: %w; see %s", err, logged.Name())
		case <-ctx.Done():
			stop()
			return nil, fmt.Errorf("waiting for the CRI server: %w", ctx.Err())
		case <-wait.C:
		}
		if conn, err := net.Dial("unix", socket); err == nil {
			wait.Stop()
			conn.Close()
			return stop, nil
		}
	}
}
