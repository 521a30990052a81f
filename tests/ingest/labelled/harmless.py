"""What only looks like a secret, one text each. Nothing of it may be masked."""

from __future__ import annotations

import random

from tests.ingest.labelled.secrets import ALNUM, HEX, drawn

_PROSE = """
My password is hard to remember.
Password: forgotten
password: ask Marta
Passwort: siehe Tresor
Passwort: bitte bei Ada erfragen
Das Passwort ist geheim.
Das Passwort ist seit 2019 dasselbe.
Das Passwort ist 8-stellig.
Das Kennwort lautet wie immer.
The password is required.
The password is at least 8 characters long.
The password is 12-character and random.
The password is SHA256-hashed.
The password is base64-encoded, not encrypted.
The password is stored in the vault.
the password was changed on 2024-03-05
password: must be at least 8 characters
Password: min. 8 characters, 1 digit
Password: 8-20 characters
Password (required): between eight and twenty letters
password reset for the greenhouse door: see the board
Password manager: KeePass or Bitwarden?
Passwords: 12 rules for choosing one
The passwords in chapter 7 are examples.
password protected
Password strength: weak
Forgot password? Click here.
Change your password every 90 days.
Two passwords, one for the shed, one for the pump.
mot de passe oublié
Mot de passe : demander à Marie
Contraseña: olvidada
Contraseña olvidada
Senha: veja o quadro
Wachtwoord vergeten?
Пароль: спроси Анну
密码：请问玛尔塔
A passphrase is longer than a password: four words will do.
The token: whatever it means in linguistics.
Token: a thing given as a sign.
A token of thanks: 12 jars of honey.
tokens: 4096
max_tokens = 4096
The secret: more compost.
Secret: never water at noon.
secret santa: 24 December
The secret of good bread is time.
His secret is 50 years old.
key: value
The key: under the third pot.
Key: C major
key points: budget, roof, bees
Primary key: user_id
Keys: 2 for the shed, 1 for the gate
The API key is in the safe.
API key: see the wiki
api_key: required
The access token expires after 3600 seconds.
access token: none yet
private key: keep it private
Private keys never leave the card.
Public key: ask the server.
master key: hangs in the office
Session key: "Autumn in the garden"
the private key of the cellar
A bearer of bad news came at 2024-03-05 12:30:45.
The bearer tokenization of rights is a legal matter.
Bearer bonds of the nineteenth century
Basic training begins on Monday.
Authorization: see chapter 4
authorization: bearer authentication
Authorization code flow is described in RFC 6749.
Write to john_doe@x.example about task-sk-1.
risk-assessment-of-the-new-roof-2024 is done
sk-learn-based-classification-of-plant-leaves
The class .sk-folding-cube-animation-start is unused.
xoxo, your Grandma
Kisses xoxo-and-more from all of us here
hf_ is a prefix
key-value-stores-are-a-kind-of-database
secret_gardens_of_the_old_town
The SKU is SK1234567890.
AKIA is a village in Akita.
AIzawl is a city.
npm_config_registry points at the mirror
Call 4111 1111 1111 1112 or +49 30 1234567890.
pypi-server is installed
ghp_ marks a token of GitHub
BEGIN PRIVATE KEY is what the first line says.
-----BEGIN PUBLIC KEY----- is harmless
-----BEGIN CERTIFICATE----- is harmless too
user:password@ is how such an address begins
mailto:ada@example.org
http://example.org:8080/path@home
https://example.org/path?page=2
https://medium.example/@ada/a-story-about-bees-8f3c2d1e4b5a
git@github.com:ada/attic.git
ssh://git@example.org:2222/attic.git
postgres://ada@localhost:5432/club
postgres://ada:${PASSWORD}@localhost/club
time: 10:30@office
ratio 3:4@home
""".strip().split("\n")
_CODE = """
password = None
password = getpass.getpass()
password = os.environ["PASSWORD"]
password = os.environ.get('DB_PASSWORD')
password = config.password
password = user_password
self.password = password
def login(user, password=None, token=None):
login(user=user, password=password, token=token)
client = Client(token=token, secret=secret)
password: str
password: string;
password?: string
password: Optional[str] = None
"password": "string"
"password": {"type": "string", "minLength": 8}
"password": "Passwort"
"password": "Enter your password"
password: "Your password must have 8 letters"
<input type="password" name="password" placeholder="Password">
<label for="password">Password</label>
<password>${db.password}</password>
if password == confirm_password:
if (password === passwordAgain) {
const { password } = req.body;
const password = req.body.password;
const token = localStorage.getItem('token');
let token = next_token();
token = tokenizer.next()
token := lexer.Next()
Token token = new Token();
token_type = "bearer"
tokenizer = BertTokenizerFast
token: IDENTIFIER
token = tokens[i + 1]
token=$TOKEN
TOKEN=${GITHUB_TOKEN}
token: ${{ secrets.GITHUB_TOKEN }}
PASSWORD=<your password>
PASSWORD=****
PASSWORD=xxxxxxxx
API_KEY=your-api-key-here
API_KEY=
password=
secret = load_secret()
secret = Secret.from_env("X")
SECRET_KEY = os.getenv("SECRET_KEY")
api_key = settings.API_KEY
apiKey: process.env.API_KEY,
key = keys[0]
key = "colour"
"key": "heading-2"
primary_key = True
foreign_key = "users.id"
sort_key: created_at
for key in mapping:
private_key_path = "/etc/ssl/private/site.pem"
private_key = load_pem(path)
ssl_key: /etc/ssl/private/site.pem
DB_PASSWORD_FILE=/run/secrets/db_password
password_hash VARCHAR(60) NOT NULL
password_changed_at = 2024-03-05
secret_name: db-credentials
secretKeyRef:
$password = $_POST['password'];
$token = bin2hex(random_bytes(32));
String password = request.getParameter("password");
char *token = strtok(line, " ");
&token[..]
token -> next
assert token.is_valid()
print(f"token: {token}")
"Authorization": `Bearer ${token}`
headers["Authorization"] = "Bearer " + token
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
curl -u "$USER:$PASSWORD" https://example.org
curl --user ada https://example.org
curl -u ada https://example.org/a:b
--password-file /run/secrets/x
--token-limit 4096
#ff00aa #1a2b3c #00000080
background: #4caf50;
""".strip().split("\n")
_NUMBERS = """
ISBN 978-3-16-148410-0
ISBN 9783161484100
ISBN 0-306-40615-2
+49 30 1234567890
+1 (415) 555-2671
0041 44 668 18 00
Tel. 030/1234567-89
UPS 1Z999AA10123456784
DHL JJD000390007882823419
USPS 9400 1000 0000 0000 0000 00
USPS 9205590164917312751089
FedEx 7489 1234 5678
Order 4111111111111112
Bestellnummer 302-1234567-1234567
Rechnung 2024-000451-77
Invoice INV-20240305-0042
IMEI 356938035643809
tweet 1580661436132757506
snowflake 175928847299117063
4111 1111 1111 1111 1234 5678
1234 5678 9012 3456
0000 0000 0000 0000
4000 1234 5678 9011
5100 0000 0000 0001
3700 000000 00001
6011-0000-0000-0001
20240305123045123
1709640000000000
2024-03-05 12:30:45.123456789
3.141592653589793238
0.4111111111111111
4111111111111111.5
192.168.100.200
2001:0db8:85a3:0000:0000:8a2e:0370:7334
00:1A:2B:3C:4D:5E
DE89370400440532013001
DE89 3704 0044 0532 0130 01
GB29 NWBK 6016 1331 9268 18
DE12 is a road
AB12 3456 7890 1234 5678
XX00 1234 5678 9012 3456
FR76 of 1976
VAT DE123456789
BIC COBADEFFXXX
GTIN 4006381333931
EAN 4 006381 333931
lat 52.520008 lon 13.404954
coordinates 4111 1111
8-800-555-35-35
SSN-like 078-05-1120
""".strip().split("\n")
_CHANCE = random.Random("harmless")
_HASHES = [
    f"commit {drawn('commit', 40, HEX)}",
    f"Merge {drawn('merge', 7, HEX)} into main",
    f"sha256:{drawn('sha', 64, HEX)}",
    f"md5 {drawn('md5', 32, HEX)}  roof.pdf",
    f"index {drawn('index', 7, HEX)}..{drawn('index two', 7, HEX)} 100644",
    "5f0c2b1e-98a7-4d5e-8d6f-3b2a1c0d9e8f",
    "id: 5f0c2b1e-98a7-4d5e-8d6f-3b2a1c0d9e8f",
    "urn:uuid:5f0c2b1e-98a7-4d5e-8d6f-3b2a1c0d9e8f",
    f"data:image/png;base64,iVBORw0KGgo{drawn('png', 400, ALNUM + '+/')}",
    f'<img src="data:image/jpeg;base64,/9j/4AAQSkZJRg{drawn("jpeg", 300, ALNUM + "+/")}">',
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{drawn('ssh', 43)} ada@shed",
    f"ssh-rsa AAAAB3NzaC1yc2E{drawn('ssh rsa', 300)}",
    f'integrity="sha512-{drawn("integrity", 86, ALNUM + "+/")}=="',
    f'"resolved": "https://registry.example.org/x/-/x-1.0.0.tgz#{drawn("npm resolved", 40, HEX)}"',
    f"https://docs.example.com/document/d/{drawn('document', 44)}/edit",
    f"https://youtu.be/{drawn('film', 11)}",
    f"Message-ID: <{drawn('message', 30)}@mail.example.org>",
    f'boundary="----=_Part_{drawn("part", 20)}"',
    f"DKIM-Signature: b={drawn('dkim', 80, ALNUM + '+/')}",
    "eyJabcdefghijkl is how some text begins",
    "see eyJabcdefghijkl there",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch.example",
    "the_quick_brown_fox_jumps_over_the_lazy_dog_2024.txt",
    "IMG_20240305_123045_HDR_edited-2.jpg",
    "Screenshot-2024-03-05-at-12.30.45.png",
    "AccountKey and SharedAccessKey are names in a connection string",
    "x86_64-unknown-linux-gnu-gcc-13.2.0",
    *(f"fingerprint {':'.join(f'{_CHANCE.randrange(256):02x}' for _ in range(16))}" for _ in range(3)),
    *(f"{drawn(f'file{number}', 32, HEX)}.jpg" for number in range(6)),
]

HARMLESS: list[str] = [*_PROSE, *_CODE, *_NUMBERS, *_HASHES]
