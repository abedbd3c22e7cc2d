package contract

// unseen lists the provider rules that files could show but no check covers, with the reason: a release does not
// contain what the rule asks for, or another rule covers this one.
var unseen = map[string]string{
	"CT-08": "the list of other providers is not in a release",
	"CT-11": "the organization of a repository is not in a release",
	"CT-15": "the tag is on the host of the repository; CT-26 covers the name of the directory",
	"CT-16": "the assets are on the host of the repository; CT-02 and CT-03 look at the directory",
	"BP-04": "files show only the part that is rule RV-02, which the check against-served covers",
	"CP-04": "files show only the part that is rule RV-02, which the check against-served covers",
	"MP-04": "files show only the part that is rule RV-02, which the check against-served covers",
	"CT-01": "the address of a repository is not in a release",
	"CT-21": "the address of a package is not in a release",
	"CT-22": "the package is on the host of the repository; CT-02 and CT-03 look at the directory",
	"CT-25": "a directory without a provider label may contain a single release; CT-73 covers directories whose " +
		"names look like a provider label",
	"CT-27": "for a directory, this is the same as CT-02 and CT-03",
	"CT-28": "for a directory, this is the same as CT-02",
	"CT-64": "whether templates are published elsewhere is not in a release",
	"CT-77": "whether classes are published elsewhere is not in a release",
	"IC-04": "RB-05 to RB-07 cover the rights that a group of the provider's own requires",
	"IC-41": "this rule stands for all rules of family CT",
	"CT-19": "the address of a package is not in a release",
	"CT-20": "the address of a package is not in a release",
	"CT-54": "which short names a provider has, and which variables it shares with others, is not in a release",
	"IC-05": "files show only the part that is rule RV-02, which the check against-served covers",
	"IC-13": "a definition counts as an InfraCluster because of this name; IC-01 covers whether there is one",
	"IC-29": "contract v1beta2 uses conditions for this, and their types are in the provider's code",
	"IC-39": "the flags of a manager are in its code, not in a release",
	"IC-40": "the flags of a manager are in its code, not in a release",
	"IM-34": "a definition counts as an InfraMachine because of this name; IM-01 covers whether there is one",
	"IM-66": "the flags of a manager are in its code, not in a release",
	"RB-10": "the provider's code, not a release, shows whether it sets blockOwnerDeletion",
}

// Unseen returns why no check of files covers a rule that files could show, or "".
func Unseen(rule string) string { return unseen[rule] }
