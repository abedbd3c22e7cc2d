package templates

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// corednsScript returns the script of class capstan-owned that upgrades CoreDNS. The script keeps its files in dir.
func corednsScript(t *testing.T, dir string) string {
	t.Helper()
	found := regexp.MustCompile(`(?s)path: /etc/kubernetes/coredns\.sh\n.*?content: \|\n(.*?)\n {12}- op:`).
		FindStringSubmatch(string(Owned))
	if found == nil {
		t.Fatal("the class has no script for CoreDNS")
	}
	return strings.ReplaceAll(found[1], "/run/kubeadm/", dir+"/")
}

// TestCoreDNSScript runs the script with substitutes for kubectl and kubeadm, which answer like those of v1.36 in a
// cluster that was created with v1.35. test/machine/run runs the script with the original programs.
func TestCoreDNSScript(t *testing.T) {
	const configuration = "apiVersion: kubeadm.k8s.io/v1beta4\nfeatureGates:\n  Old: true\n  Older: true\n" +
		"imageRepository: registry.example\nkubernetesVersion: v1.35.4\nnetworking:\n  serviceSubnet: 10.96.0.0/12\n"
	for name, c := range map[string]struct {
		image string
		calls string // of kubeadm init
	}{
		"CoreDNS of the previous version": {"registry.example/coredns:v1.13.1",
			"init phase addon coredns --config DIR/coredns.yaml --kubeconfig /etc/kubernetes/admin.conf\n"},
		"CoreDNS of this version":  {"registry.example/coredns:v1.14.2", ""},
		"somebody removed CoreDNS": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, script := range map[string]string{
				"kubectl": `case "$*" in *deployment*) printf %s "$IMAGE" ;; *) printf %s "$CONFIGURATION" ;; esac`,
				"kubeadm": `case "$1" in
version) echo v1.36.3 ;;
config) printf '%s\n' registry.example/etcd:3 registry.example/coredns:v1.14.2 ;;
*) echo "$@" >> "$CALLS" ;;
esac`,
			} {
				if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("sh", "-c", corednsScript(t, dir))
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "IMAGE="+c.image,
				"CONFIGURATION="+configuration, "CALLS="+dir+"/calls")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			calls, _ := os.ReadFile(dir + "/calls") // missing if kubeadm was not called
			if want := strings.ReplaceAll(c.calls, "DIR", dir); string(calls) != want {
				t.Errorf("kubeadm was called with %q, want %q", calls, want)
			}
			written, err := os.ReadFile(dir + "/coredns.yaml")
			want := "apiVersion: kubeadm.k8s.io/v1beta4\nimageRepository: registry.example\nkubernetesVersion: v1.36.3\n" +
				"networking:\n  serviceSubnet: 10.96.0.0/12\n"
			if err != nil || string(written) != want {
				t.Errorf("the configuration is %q, want %q (%v)", written, want, err)
			}
		})
	}
}
