package preflight

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// bare are the files that a computer lacks if it gets everything from a bundle.
var bare = map[string]string{
	"/usr/bin/kubeadm": gone, "/usr/bin/kubelet": gone, "/run/containerd/containerd.sock": gone,
}

// archived returns a small bundle of a version.
func archived(t *testing.T, version string) string {
	t.Helper()
	kubelet := filepath.Join(t.TempDir(), "kubelet")
	if err := os.WriteFile(kubelet, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := &bundlefile.Manifest{
		Kubernetes: version, Architecture: "amd64", Files: []bundlefile.File{{Path: "bin/kubelet"}},
	}
	var out bytes.Buffer
	if err := bundlefile.Write(&out, m, func(string) string { return kubelet }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// unpacked returns the files of a bundle on a host.
func unpacked(t *testing.T, version string) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), version)
	if _, err := bundlefile.Unpack(strings.NewReader(archived(t, version)), dir); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range []string{"bin/kubelet", "manifest.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files["/opt/capstan/bundles/"+version+"/"+name] = string(text)
	}
	return files
}

// TestWhereProgramsComeFrom: preflight doesn't require what a bundle brings, and reports what would conflict with a
// bundle.
func TestWhereProgramsComeFrom(t *testing.T) {
	const archive = "/opt/capstan/bundles/v1.36.3-linux-amd64.tar.gz"
	const unit = "/usr/lib/systemd/system/containerd.service"
	const config = "/etc/capstan/agent.yaml"
	good, damaged := archived(t, "v1.36.3"), unpacked(t, "v1.36.3")
	damaged["/opt/capstan/bundles/v1.36.3/bin/kubelet"] = "#?"
	for name, c := range map[string]struct {
		files               map[string]string
		from                string
		runtime, kubernetes string // the verdict and a part of what was found
	}{
		"neither a configuration nor a bundle": {nil, "", "ok comes with the bundle", "warning none of its own"},
		"enrolled at a plane": {
			map[string]string{config: "server: https://192.0.2.1:7443\nenrolment: https://192.0.2.1:7444\n"}, "",
			"ok comes with the bundle", "ok come with a bundle of the plane",
		},
		"enrolled by hand": {
			map[string]string{config: "server: https://192.0.2.1:7443\n"}, "", "ok comes with the bundle",
			"warning none of its own",
		},
		"the caller chooses the plane": {nil, fromPlane, "ok comes with the bundle", "ok come with a bundle of the plane"},
		"an archive on the host": {
			map[string]string{archive: good}, "", "ok comes with the bundle", "ok bundles of v1.36.3",
		},
		"an empty directory": {nil, fromDirectory, "ok comes with the bundle", "missing no bundle in"},
		"a bundle in the directory": {
			map[string]string{archive: good}, fromDirectory, "ok comes", "ok bundles of v1.36.3",
		},
		"an unfinished download": {
			map[string]string{"/opt/capstan/bundles/.x.part": ""}, fromDirectory, "ok", "missing no",
		},
		"an unpacked bundle": {
			unpacked(t, "v1.36.3"), "", "ok comes", "ok bundles of v1.36.3",
		},
		"an unpacked bundle that is damaged": {
			damaged, "", "ok comes", "missing /opt/capstan/bundles/v1.36.3: the bundle is damaged: ",
		},
		"an archive that was cut off": {
			map[string]string{archive: good[:len(good)/2]}, fromDirectory, "ok comes",
			"missing " + archive + ": the bundle is damaged: ",
		},
		"a bundle without a container runtime": {
			map[string]string{"/opt/capstan/bundles/v1.36.3/capstan-kube": ""}, "", "missing no socket",
			"ok bundles of v1.36.3",
		},
		"an archive for another architecture": {
			map[string]string{"/opt/capstan/bundles/v1.36.3-linux-arm64.tar.gz": ""}, fromDirectory, "ok comes",
			"missing no bundle",
		},
		"packages, which are not installed": {nil, fromPackages, "missing no socket", "missing no kubeadm and kubelet"},
		"packages in the configuration": {
			map[string]string{config: "bundles: packages\n", archive: good}, "", "missing no socket", "missing no kubeadm and",
		},
		"packages in the configuration, but the caller chooses the plane": {
			map[string]string{config: "bundles: packages\n"}, fromPlane, "ok comes", "ok come with",
		},
		"packages, which are installed": {
			map[string]string{"/usr/bin/kubeadm": "#!", "/usr/bin/kubelet": "#!", "/run/crio/crio.sock": ""}, "",
			"ok /run/crio/crio.sock", "ok kubeadm, kubelet",
		},
		"installed packages, but the caller chooses the plane": {
			map[string]string{"/usr/bin/kubeadm": "#!", "/usr/bin/kubelet": "#!", unit: "[Unit]"}, fromPlane,
			"missing containerd of a package", "ok come with a bundle of the plane",
		},
		"kubeadm without kubelet": {
			map[string]string{"/usr/bin/kubeadm": "#!"}, fromPackages, "missing no socket", "missing no kubelet",
		},
		"a package's containerd": {
			map[string]string{unit: "[Unit]", archive: good}, "", "missing containerd of a package", "ok bundles of",
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

// TestPolicyOfTheHost: the CapstanHost's policy decides, unless the host's own configuration or the caller sets one.
// Preflight asks the source of that policy for the bundle.
func TestPolicyOfTheHost(t *testing.T) {
	const mirror = "https://mirror.example/capstan"
	const archive = "/opt/capstan/bundles/v1.36.3-linux-amd64.tar.gz"
	own := map[string]string{"/usr/bin/kubeadm": "#!", "/usr/bin/kubelet": "#!", "/run/crio/crio.sock": ""}
	policy := func(source v1beta2.BundleSource) v1beta2.BundlePolicy { return v1beta2.BundlePolicy{Source: source} }
	mirrored := v1beta2.BundlePolicy{Source: v1beta2.BundlesFromMirror, Mirror: v1beta2.BundleMirror{URL: mirror}}
	plane := policy(v1beta2.BundlesFromPlane)
	for name, c := range map[string]struct {
		files        map[string]string
		policy       v1beta2.BundlePolicy
		claimed      string // the version of the claim
		role         Role
		asks         v1beta2.BundlePolicy
		version      string // that is asked for
		answer       error
		runtime, get string // the verdict and a part of what was found
	}{
		"from the plane, without a version": {
			policy: plane, asks: plane, runtime: "ok comes", get: "ok the plane answers; --kubernetes VERSION",
		},
		"from the plane": {
			policy: plane, asks: plane, role: Role{Kubernetes: "v1.36.3"}, version: "v1.36.3", runtime: "ok comes",
			get: "ok come with the bundle of Kubernetes v1.36.3 of the plane",
		},
		"from the plane, in the claim's version": {
			policy: plane, asks: plane, claimed: "v1.35.4", version: "v1.35.4", runtime: "ok comes",
			get: "ok come with the bundle of Kubernetes v1.35.4 of the plane",
		},
		"from the plane, in another version than the claim's": {
			policy: plane, asks: plane, claimed: "v1.35.4", role: Role{Kubernetes: "v1.36.3"}, version: "v1.36.3",
			runtime: "ok comes", get: "ok come with the bundle of Kubernetes v1.36.3",
		},
		"the plane has no bundle": {
			policy: plane, asks: plane, answer: fault.New(nil, "the plane has no bundle"), runtime: "ok comes",
			get: "missing the plane has no bundle",
		},
		"the plane does not answer": {
			policy: plane, asks: plane, answer: errors.New("no route to host"), runtime: "ok comes",
			get: "missing the plane can't be reached: no route to host",
		},
		"from the plane, although the host has its own programs": {
			files: own, policy: plane, asks: plane, runtime: "ok comes", get: "ok the plane answers",
		},
		"from the mirror": {
			policy: mirrored, asks: mirrored, role: Role{Kubernetes: "v1.36.3"}, version: "v1.36.3", runtime: "ok comes",
			get: "ok come with the bundle of Kubernetes v1.36.3 of the mirror " + mirror,
		},
		"the mirror has no bundle": {
			policy: mirrored, asks: mirrored, answer: fault.New(nil, "the mirror has no x"), runtime: "ok comes",
			get: "missing the mirror has no x",
		},
		"the mirror does not answer": {
			policy: mirrored, asks: mirrored, answer: errors.New("connection refused"), runtime: "ok comes",
			get: "missing the mirror " + mirror + " can't be reached: connection refused",
		},
		"from the mirror, and the bundle is on the host already": {
			files: unpacked(t, "v1.36.3"), policy: mirrored, role: Role{Kubernetes: "v1.36.3"}, runtime: "ok comes",
			get: "ok bundles of v1.36.3",
		},
		"from the mirror, and another version is on the host": {
			files: unpacked(t, "v1.35.4"), policy: mirrored, asks: mirrored, role: Role{Kubernetes: "v1.36.3"},
			version: "v1.36.3", runtime: "ok comes", get: "ok come with the bundle of Kubernetes v1.36.3",
		},
		"from the directory": {
			files: map[string]string{archive: archived(t, "v1.36.3")}, policy: policy(v1beta2.BundlesFromDirectory),
			role: Role{Kubernetes: "v1.36.3"}, runtime: "ok comes", get: "ok bundles of v1.36.3",
		},
		"the directory has another version": {
			files: map[string]string{archive: archived(t, "v1.36.3")}, policy: policy(v1beta2.BundlesFromDirectory),
			role: Role{Kubernetes: "v1.35.4"}, runtime: "ok comes", get: "missing no bundle of Kubernetes v1.35.4 in ",
		},
		"packages": {files: own, policy: policy(v1beta2.BundlesFromPackages), runtime: "ok /run/crio/crio.sock",
			get: "ok kubeadm, kubelet"},
		"packages, which are not installed": {
			policy: policy(v1beta2.BundlesFromPackages), runtime: "missing no socket", get: "missing no kubeadm and kubelet",
		},
		"the host's own configuration overrides the policy": {
			files:  map[string]string{"/etc/capstan/agent.yaml": "bundles: directory\n"},
			policy: mirrored, runtime: "ok comes", get: "missing no bundle in",
		},
		"the caller overrides the policy": {
			policy: mirrored, role: Role{Bundles: fromPackages}, runtime: "missing no socket", get: "missing no kubeadm",
		},
		"nothing sets a source": {
			files: map[string]string{"/etc/capstan/agent.yaml": "enrolment: https://192.0.2.1:7444\n"}, asks: plane,
			runtime: "ok comes", get: "ok the plane answers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(bare)
			maps.Copy(files, c.files)
			s := computer(t, files)
			asked := 0
			s.Enrolment = func() (*Enrolment, error) {
				return &Enrolment{
					Host: "default/h1", Server: "https://192.0.2.1:7443", Bundles: c.policy, Kubernetes: c.claimed,
					Probe: func(policy v1beta2.BundlePolicy, version string) error {
						asked++
						if policy.Source != c.asks.Source || policy.Mirror.URL != c.asks.Mirror.URL || version != c.version {
							t.Errorf("Probe asks %+v for %q, want %+v for %q", policy, version, c.asks, c.version)
						}
						return c.answer
					},
				}, nil
			}
			want := map[string]string{
				"plane": "ok default/h1 at https://192.0.2.1:7443", "runtime": c.runtime, "kubernetes": c.get,
			}
			for _, f := range Run(s, c.role) {
				got := string(f.Verdict) + " " + f.Found
				if want[f.Check] != "" && !strings.HasPrefix(got, want[f.Check]) {
					t.Errorf("%s: got %q, mend %q; want %q", f.Check, got, f.Mend, want[f.Check])
				}
			}
			if (asked == 1) != (c.asks.Source != "") || asked > 1 {
				t.Errorf("Probe was called %d times", asked)
			}
		})
	}
}

// TestAPlaneThatDoesNotAnswer: preflight reports if it can't ask the plane, or if the caller may not read the
// credential.
func TestAPlaneThatDoesNotAnswer(t *testing.T) {
	for text, c := range map[string]struct {
		err  error
		want Verdict
	}{
		"no route to host":  {errors.New("no route to host"), Missing},
		"only root can":     {&fs.PathError{Op: "open", Path: "/etc/capstan/agent.yaml", Err: fs.ErrPermission}, Unknown},
		"has not enrolled":  {nil, OK},
		"no CapstanHost h1": {errors.New("there is no CapstanHost h1 any more"), Missing},
	} {
		s := computer(t, nil)
		s.Enrolment = func() (*Enrolment, error) { return nil, c.err }
		for _, f := range Run(s, Role{}) {
			if f.Check == "plane" && (f.Verdict != c.want || !strings.Contains(f.Found, text)) {
				t.Errorf("%s: %+v", text, f)
			}
		}
	}
}
