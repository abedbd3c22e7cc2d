package preflight

import (
	"maps"
	"strings"
	"testing"
)

// bare are the files that a computer lacks which shall get everything by a bundle.
var bare = map[string]string{
	"/usr/bin/kubeadm": gone, "/usr/bin/kubelet": gone, "/run/containerd/containerd.sock": gone,
}

// TestWhereProgramsComeFrom: what a bundle brings is not asked for, and what it can't be installed beside is named.
func TestWhereProgramsComeFrom(t *testing.T) {
	const archive = "/opt/capstan/bundles/v1.36.3-linux-amd64.tar.gz"
	const unit = "/usr/lib/systemd/system/containerd.service"
	const config = "/etc/capstan/agent.yaml"
	for name, c := range map[string]struct {
		files               map[string]string
		from                string
		runtime, kubernetes string // the verdict and a part of what was found
	}{
		"nothing is known": {nil, "", "ok comes with the bundle", "warning none of its own"},
		"enrolled at a plane": {
			map[string]string{config: "server: https://192.0.2.1:7443\nenrolment: https://192.0.2.1:7444\n"}, "",
			"ok comes with the bundle", "ok come with a bundle of the plane",
		},
		"enrolled by hand": {
			map[string]string{config: "server: https://192.0.2.1:7443\n"}, "", "ok comes with the bundle",
			"warning none of its own",
		},
		"the plane's":            {nil, fromPlane, "ok comes with the bundle", "ok come with a bundle of the plane"},
		"an archive":             {map[string]string{archive: ""}, "", "ok comes with the bundle", "ok bundles of v1.36.3"},
		"a directory without":    {nil, fromDirectory, "ok comes with the bundle", "missing no bundle in"},
		"a directory with one":   {map[string]string{archive: ""}, fromDirectory, "ok comes", "ok bundles of v1.36.3"},
		"an unfinished download": {map[string]string{"/opt/capstan/bundles/.x.part": ""}, fromDirectory, "ok", "missing no"},
		"one that is unpacked": {
			map[string]string{"/opt/capstan/bundles/v1.36.3/manifest.json": "{}"}, "", "ok comes", "ok bundles of v1.36.3",
		},
		"one without a container runtime": {
			map[string]string{"/opt/capstan/bundles/v1.36.3/capstan-kube": ""}, "", "missing no socket",
			"ok bundles of v1.36.3",
		},
		"one of another architecture": {
			map[string]string{"/opt/capstan/bundles/v1.36.3-linux-arm64.tar.gz": ""}, fromDirectory, "ok comes",
			"missing no bundle",
		},
		"packages, which are not installed": {nil, fromPackages, "missing no socket", "missing no kubeadm and kubelet"},
		"packages, by the configuration": {
			map[string]string{config: "bundles: packages\n", archive: ""}, "", "missing no socket", "missing no kubeadm and",
		},
		"packages by the configuration, and the plane asked for": {
			map[string]string{config: "bundles: packages\n"}, fromPlane, "ok comes", "ok come with",
		},
		"packages, which are installed": {
			map[string]string{"/usr/bin/kubeadm": "#!", "/usr/bin/kubelet": "#!", "/run/crio/crio.sock": ""}, "",
			"ok /run/crio/crio.sock", "ok kubeadm, kubelet",
		},
		"packages, which are installed, beside a plane that is asked for": {
			map[string]string{"/usr/bin/kubeadm": "#!", "/usr/bin/kubelet": "#!", unit: "[Unit]"}, fromPlane,
			"missing containerd of a package", "ok come with a bundle of the plane",
		},
		"half of the programs": {
			map[string]string{"/usr/bin/kubeadm": "#!"}, fromPackages, "missing no socket", "missing no kubelet",
		},
		"a package's containerd": {
			map[string]string{unit: "[Unit]", archive: ""}, "", "missing containerd of a package", "ok bundles of",
		},
		"a configuration that can't be read": {
			map[string]string{config: "\t:"}, "", "ok comes with the bundle", "warning none of its own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(bare)
			maps.Copy(files, c.files)
			s, role := computer(t, files), Role{Bundles: c.from}
			for check, want := range map[string]string{"runtime": c.runtime, "kubernetes": c.kubernetes} {
				for _, f := range Run(s, role) {
					if got := string(f.Verdict) + " " + f.Found; f.Check == check && !strings.HasPrefix(got, want) {
						t.Errorf("%s: got %q, mend %q; want %q", check, got, f.Mend, want)
					}
				}
			}
		})
	}
}
