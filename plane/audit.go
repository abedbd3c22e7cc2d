//go:build linux

package plane

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// The audit log consists of a file of at most auditMegabytes, and up to auditBackups older files next to it.
const (
	auditMegabytes = 20
	auditBackups   = 4
	// fullAuditMegabytes is the size of a log of all requests, which only tests and developers request.
	fullAuditMegabytes = 100
)

// auditPolicyFile is the name of the audit policy in the plane's directory.
const auditPolicyFile = "audit-policy.yaml"

// auditPolicy records who read or changed security-relevant data, when, and whether it was allowed.
//
//go:embed audit-policy.yaml
var auditPolicy []byte

// fullAuditPolicy records who made which request and when, but not its contents.
const fullAuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
`

// auditLog returns the path of the audit log in the plane's directory.
func auditLog(dir string) string { return filepath.Join(dir, "audit", "audit.log") }

// audit returns the API server's arguments for the audit log.
func (p *plane) audit() []string {
	size, backups := auditMegabytes, auditBackups
	if p.opts.Audit != "" {
		size, backups = fullAuditMegabytes, 1
	}
	return []string{
		"--audit-policy-file=" + filepath.Join(p.Dir, auditPolicyFile),
		"--audit-log-path=" + cmp.Or(p.opts.Audit, auditLog(p.Dir)),
		"--audit-log-maxsize=" + strconv.Itoa(size),
		"--audit-log-maxbackup=" + strconv.Itoa(backups),
	}
}

// writeAuditPolicy writes the audit policy and creates the directory of the log.
func (p *plane) writeAuditPolicy() error {
	policy := auditPolicy
	if p.opts.Audit != "" {
		policy = []byte(fullAuditPolicy)
	}
	if err := os.MkdirAll(filepath.Dir(cmp.Or(p.opts.Audit, auditLog(p.Dir))), 0o700); err != nil {
		return fmt.Errorf("creating the directory of the audit log: %w", err)
	}
	return atomicfile.Write(filepath.Join(p.Dir, auditPolicyFile), policy, 0o600)
}
