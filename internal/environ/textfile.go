package environ

import (
	"bytes"
	"errors"
)

// ErrUTF16 is the error for a file in UTF-16. Its text follows the name of the file.
var ErrUTF16 = errors.New("is encoded in UTF-16: save it as UTF-8")

// DecodeText returns the content of a text file without the byte order mark of UTF-8. Notepad and
// PowerShell 5 begin UTF-8 files with one, and PowerShell 5 redirects output as UTF-16. DecodeText fails
// with [ErrUTF16] if the file begins with a byte order mark of UTF-16.
func DecodeText(content []byte) ([]byte, error) {
	if bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff")) {
		return nil, ErrUTF16
	}
	return bytes.TrimPrefix(content, []byte("\ufeff")), nil
}
