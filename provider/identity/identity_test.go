package identity

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestAgentsMayTouchTheirOwnHostOnly lists everything that an agent may do. Each rule names one object.
func TestAgentsMayTouchTheirOwnHostOnly(t *testing.T) {
	host := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "host-01", UID: "1"}}
	var got strings.Builder
	for _, object := range Objects(host) {
		role, ok := object.(*rbacv1ac.RoleApplyConfiguration)
		if !ok {
			continue
		}
		for _, r := range role.Rules {
			fmt.Fprintln(&got, strings.Join(r.Resources, ","), strings.Join(r.ResourceNames, ","), strings.Join(r.Verbs, ","))
		}
	}
	want := `capstanhosts host-01 get,list,watch
capstanhosts/status host-01 get,update,patch
secrets host-01-bootstrap get
secrets host-01-handover get
serviceaccounts/token host-host-01 create
leases host-01 get,update,patch
`
	if got.String() != want {
		t.Errorf("an agent may:\n%s\nwant:\n%s", got.String(), want)
	}
}
