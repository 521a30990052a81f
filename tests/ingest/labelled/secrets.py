"""Made-up secrets in the places where secrets are found: (class, text, the secret in it). None ever opened anything.

They are drawn from a seed and put together here, so that no file of the repository holds one.
"""

from __future__ import annotations

import random
import string

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
ALNUM = UPPER + LOWER + DIGITS
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "-_"


def drawn(name: str, length: int, letters: str = ALNUM) -> str:
    """Return the letters that this name stands for, always with a digit and a letter among them."""
    chance = random.Random(name)
    found = [chance.choice(letters) for _ in range(length)]
    found[1] = "7"
    found[2] = next((letter for letter in letters if letter.isalpha()), "4")
    return "".join(found)


def _luhn(start: str, length: int, seed: str) -> str:
    chance = random.Random(seed)
    body = start + "".join(chance.choice(DIGITS) for _ in range(length - len(start) - 1))
    total = 0
    for place, letter in enumerate(reversed(body)):
        digit = int(letter) * (2 if place % 2 == 0 else 1)
        total += digit - 9 if digit > 9 else digit
    return body + str(-total % 10)


def _grouped(digits: str, groups: tuple[int, ...], separator: str) -> str:
    parts, at = [], 0
    for size in groups:
        parts.append(digits[at : at + size])
        at += size
    return separator.join(parts)


def _pem(kind: str, lines: int = 6, mark: str = "") -> str:
    body = "\n".join(f"{mark}{drawn(f'{kind}{line}', 64)}" for line in range(lines))
    return f"{mark}-----BEGIN {kind}-----\n{body}\n{mark}-----END {kind}-----"


_PROVIDERS: list[tuple[str, str]] = [
    ("sk-" + drawn("openai", 48), "OPENAI_API_KEY={}"),
    ("sk-" + "proj-" + drawn("openai project", 74, URLSAFE), "client = OpenAI(api_key='{}')"),
    ("sk-" + "svcacct-" + drawn("openai service", 60), "I pasted {} into the form by mistake."),
    ("sk-" + "ant-api03-" + drawn("anthropic", 93, URLSAFE), "x-api-key: {}"),
    ("sk-" + "or-v1-" + drawn("openrouter", 64, HEX), "OpenRouter: {}"),
    ("AI" + "za" + drawn("google", 35, URLSAFE), "https://maps.example.com/api/js?key={}&v=3"),
    ("ya29." + drawn("google token", 120, URLSAFE), "the access token was {} yesterday"),
    ("GOC" + "SPX-" + drawn("google client", 28, URLSAFE), '"client_secret":"{}"'),
    ("AK" + "IA" + drawn("aws", 16, UPPER + DIGITS), "aws_access_key_id = {}"),
    ("AS" + "IA" + drawn("aws session", 16, UPPER + DIGITS), "Credential={}/20250101/eu-central-1/s3"),
    (drawn("aws secret", 40, ALNUM + "/+"), "aws_secret_access_key = {}"),
    (drawn("aws secret two", 40, ALNUM), "AWS_SECRET_ACCESS_KEY={}"),
    ("gh" + "p_" + drawn("github", 36), "git clone https://{}@github.com/ada/attic.git"),
    ("gh" + "s_" + drawn("github server", 36), "GITHUB_TOKEN: {}"),
    ("github" + "_pat_" + drawn("pat", 22) + "_" + drawn("pat two", 59), "Use this one: {} (read only)"),
    ("gl" + "pat-" + drawn("gitlab", 20, URLSAFE), "PRIVATE-TOKEN: {}"),
    ("gl" + "rt-" + drawn("gitlab runner", 20, URLSAFE), "gitlab-runner register --token {}"),
    ("xo" + "xb-" + "2741" + drawn("slack", 8, DIGITS) + "-" + drawn("slack two", 24), "SLACK_BOT={}"),
    ("xo" + "xp-" + drawn("slack user", 50, DIGITS + "-"), "bot token {}"),
    ("xa" + "pp-1-A" + drawn("slack app", 60), "app level: {}"),
    (
        "T" + drawn("hook", 8, UPPER) + "/B" + drawn("hook two", 8, UPPER) + "/" + drawn("hook three", 24),
        "curl -X POST https://hooks.slack.com/services/{} -d @body",
    ),
    ("sk" + "_live_" + drawn("stripe", 24), "stripe.api_key = '{}'"),
    ("rk" + "_live_" + drawn("stripe restricted", 24), "stripe listen --api-key {}"),
    ("wh" + "sec_" + drawn("stripe hook", 32), "endpoint secret {}"),
    ("S" + "K" + drawn("twilio", 32, HEX), "Twilio key {} of the gate phone"),
    (drawn("twilio token", 32, HEX), "TWILIO_AUTH_TOKEN={}"),
    ("S" + "G." + drawn("sendgrid", 22, URLSAFE) + "." + drawn("sendgrid two", 43, URLSAFE), "mail goes through {}"),
    ("np" + "m_" + drawn("npm", 36), "//registry.example.org/:_authToken={}"),
    ("py" + "pi-AgEIcHlwaS5vcmc" + drawn("pypi", 120, URLSAFE), "password = {}"),
    ("h" + "f_" + drawn("hugging", 34, UPPER + LOWER), "huggingface-cli login --token {}"),
    (
        drawn("azure", 86, ALNUM + "+/") + "==",
        "DefaultEndpointsProtocol=https;AccountName=shed;AccountKey={};EndpointSuffix=x",
    ),
    (drawn("azure sas", 43, ALNUM) + "%3D", "https://shed.blob.example.net/a?sv=2024&sp=r&sig={}"),
    ("7164392058" + ":AA" + drawn("telegram", 33, URLSAFE), "https://api.telegram.org/bot{}/getMe"),
    (
        "MTk4" + drawn("discord", 20) + "." + drawn("discord two", 6) + "." + drawn("discord three", 38),
        "client.login('{}')",
    ),
    (drawn("discord hook", 68, URLSAFE), "https://discord.com/api/webhooks/104857600123456789/{}"),
    ("dop" + "_v1_" + drawn("ocean", 64, HEX), "doctl auth init -t {}"),
    ("key" + "-" + drawn("mailgun", 32, HEX), "curl -s --user 'api:{}' https://api.mailgun.example/v3"),
    (drawn("mailchimp", 32, HEX) + "-us14", "Mailchimp {}"),
    ("shp" + "at_" + drawn("shop", 32, HEX), "X-Shop-Token: {}"),
    ("hv" + "s." + drawn("vault", 90, URLSAFE), "vault login {}"),
    ("dckr" + "_pat_" + drawn("docker", 27, URLSAFE), "docker login -u ada -p {}"),
    ("gs" + "k_" + drawn("groq", 52), "groq {}"),
    ("dap" + "i" + drawn("databricks", 32, HEX), "databricks {}"),
    ("ATA" + "TT3xFfGF0" + drawn("atlassian", 170, URLSAFE), "jira: {}"),
    ("AGE-" + "SECRET-KEY-1" + drawn("age", 58, UPPER + DIGITS), "# key of the archive\n{}"),
    ("ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0." + drawn("jwt", 43, URLSAFE), "Cookie: session={}"),
    (
        "ey" + "JhbGciOiJSUzI1NiJ9.ey" + "J" + drawn("jwt body", 200, URLSAFE) + "." + drawn("jwt end", 300, URLSAFE),
        "id_token {}",
    ),
]
_BEARERS: list[tuple[str, str]] = [
    (drawn("bearer", 40), "Authorization: Bearer {}"),
    (drawn("bearer two", 32, HEX), "curl -H 'Authorization: bearer {}' https://api.example.org"),
    ("QWRhOmZsb3dlcjE5ODg=", "Authorization: Basic {}"),
    ("YmVlOmhvbmV5bW9vbg==", "headers = {{'Authorization': 'Basic {}'}}"),
    (drawn("token head", 40, HEX), "Authorization: Token {}"),
    ("Gr33nhouse!", "curl -u ada:{} https://shed.example.org/roof"),
    ("hummingbird", "curl --user bob:{} -O https://example.org/x"),
    ("s3cretRoof", "postgres://ada:{}@db.example.org:5432/club"),
    ("pumpkin", "amqp://worker:{}@queue.local/"),
    (drawn("redis", 20), "REDIS_URL=redis://:{}@cache:6379/0"),
    ("h0n3y%2Fjar", "ftp://bees:{}@files.example.org/hives"),
    ("tulips&co", "mysql://root:{}@[::1]/garden"),
    (drawn("mongo", 16), "mongodb+srv://app:{}@cluster0.example.net/test?retryWrites=true"),
    (drawn("proxy", 10), "export https_proxy=http://ada:{}@proxy.example:3128"),
    (drawn("proxy auth", 24), "Proxy-Authorization: Basic {}"),
]
_ASSIGNED: list[tuple[str, str]] = [
    ("hunter22", "password=hunter22"),
    ("corr3ct horse", "DB_PASSWORD: 'corr3ct horse'"),
    ("abcd1234efgh", '{"api_key": "abcd1234efgh"}'),
    ("sommerregen", "SMTP_PASSWORD=sommerregen"),
    (drawn("env", 24), "export SECRET_KEY={}"),
    (drawn("env two", 40, HEX), "SESSION_SECRET={}"),
    (drawn("env three", 32, HEX), "  webhook_secret: {}"),
    (drawn("django", 50, ALNUM + "!@#$^&*(-_=+)"), "SECRET_KEY = 'django-insecure-{}'"),
    ("Tr0ub4dor&3", "spring.datasource.password=Tr0ub4dor&3"),
    ("Tr0ub4dor&3", "MYSQL_ROOT_PASSWORD: Tr0ub4dor&3"),
    ("Tr0ub4dor&3", "      - POSTGRES_PASSWORD=Tr0ub4dor&3"),
    ("Tr0ub4dor&3", '<add key="x" password="Tr0ub4dor&3" />'),
    ("Tr0ub4dor3", "<password>Tr0ub4dor3</password>"),
    ("Tr0ub4dor&3", "$config['db_password'] = 'Tr0ub4dor&3';"),
    ("Tr0ub4dor&3", "Server=db;Database=club;User Id=sa;Password=Tr0ub4dor&3;"),
    ("Tr0ub4dor&3", "jdbc:sqlserver://db;user=sa;password=Tr0ub4dor&3"),
    ("s3same0pen", "mysqldump --password=s3same0pen club"),
    ("s3same0pen", "sshpass -p s3same0pen ssh root@pump"),
    ("s3same0pen", "machine ftp.example.org login ada password s3same0pen"),
    ("s3same0pen", "CREATE USER ada WITH PASSWORD 's3same0pen';"),
    ("open sesame now please", "passphrase = 'open sesame now please'"),
    ("flower", 'password = "flower"'),
    ("flower", '"password": "flower",'),
    (drawn("kotlin", 20), 'val apiKey = "{}"'),
    (drawn("rust", 20), 'const API_KEY: &str = "{}";'),
    (drawn("py", 28), 'token: str = "{}"'),
    (drawn("js", 28), "const accessToken = `{}`;"),
    (drawn("go", 28), 'authToken := "{}"'),
    (drawn("ruby", 28), ":client_secret => '{}'"),
    (drawn("url", 28), "https://api.example.org/v1/rows?access_token={}&page=2"),
    ("5f0c2b1e-98a7-4d5e-8d6f-3b2a1c0d9e8f", "API_KEY=5f0c2b1e-98a7-4d5e-8d6f-3b2a1c0d9e8f"),
    (drawn("wg", 43, ALNUM + "+/") + "=", "[Interface]\nPrivateKey = {}"),
    (drawn("yaml", 32, HEX), "encryption_key: {}"),
    (drawn("ini", 12), "[smtp]\nuser = ada\npassword = {}"),
    (drawn("toml", 30), 'auth_token = "{}"'),
    (drawn("docker env", 22), "docker run -e JWT_SECRET={} club/app"),
    (drawn("ps", 22), "$env:API_TOKEN = '{}'"),
    (drawn("tf", 22), 'secret_key = "{}"'),
    (drawn("header", 32), "X-Auth-Token: {}"),
    (drawn("pass1", 9), "password2: {}"),
]
_PROSE: list[tuple[str, str]] = [
    ("Hund4711!", "Das Passwort ist Hund4711!"),
    ("Hund4711", "Passwort: Hund4711"),
    ("Hund4711", "WLAN-Passwort: Hund4711"),
    ("Hund4711", "Das Kennwort lautet Hund4711, bitte nicht weitersagen."),
    ("kqT9-vvb2", "Password: kqT9-vvb2"),
    ("kqT9-vvb2", "the password is kqT9-vvb2"),
    ("kqT9-vvb2", "**Password:** kqT9-vvb2"),
    ("kqT9-vvb2", "Password: `kqT9-vvb2`"),
    ("kqT9-vvb2", "| Password | kqT9-vvb2 |"),
    ("kqT9-vvb2", "User: guest Password: kqT9-vvb2"),
    ("kqT9-vvb2", "password for the guests: kqT9-vvb2"),
    ("kqT9-vvb2", "Password (wifi): kqT9-vvb2"),
    ("kqT9-vvb2", "> password: kqT9-vvb2"),
    ("kqT9-vvb2", "[10:02] <ada> password: kqT9-vvb2"),
    ("abeille#77", "Mot de passe : abeille#77"),
    ("abeja2024!", "Contraseña: abeja2024!"),
    ("abelha99", "Senha: abelha99"),
    ("bij&honing1", "Wachtwoord: bij&honing1"),
    ("pszczola7", "Hasło: pszczola7"),
    ("pchela2024", "Пароль: pchela2024"),
    ("mifeng88", "密码：mifeng88"),
    ("mitsubachi8", "パスワード：mitsubachi8"),
    ("482913", "Password: 482913"),
    ("dragon!fly", "my password was 'dragon!fly' until May"),
]
_NUMBERS: list[tuple[str, str, str]] = [
    ("card", "4111 1111 1111 1111", "card 4111 1111 1111 1111, please"),
    ("card", "5500-0055-5555-5559", "card 5500-0055-5555-5559"),
    *(
        ("card", shown, text.format(shown))
        for shown, text in (
            (_luhn("4", 16, "a"), "Visa {} exp 09/27"),
            (_luhn("4539", 16, "b"), "Kartennummer: {}."),
            (_grouped(_luhn("4716", 16, "c"), (4, 4, 4, 4), " "), "pay with {}"),
            (_grouped(_luhn("51", 16, "d"), (4, 4, 4, 4), "-"), "MC {} (Ada)"),
            (_grouped(_luhn("2221", 16, "e"), (4, 4, 4, 4), " "), "new series {}"),
            (_luhn("37", 15, "f"), "Amex {}"),
            (_grouped(_luhn("34", 15, "g"), (4, 6, 5), " "), "Amex {} 4-digit code on the front"),
            (_grouped(_luhn("36", 14, "h"), (4, 6, 4), " "), "Diners {}"),
            (_luhn("6011", 16, "i"), "number={}&cvc=123"),
            (_grouped(_luhn("3530", 16, "j"), (4, 4, 4, 4), " "), "JCB {}"),
            (_luhn("62", 16, "k"), "UnionPay {}"),
            (_grouped(_luhn("4917", 16, "l"), (4, 4, 4, 4), "\u00a0"), "Karte {} gesperrt"),
        )
    ),
    *(
        ("iban", shown, text.format(shown))
        for shown, text in (
            ("DE89370400440532013000", "IBAN: {}"),
            ("DE89 3704 0044 0532 0130 00", "Bitte auf {} BIC COBADEFFXXX überweisen"),
            ("GB29 NWBK 6016 1331 9268 19", "Transfer to {}."),
            ("FR1420041010050500013M02606", "compte {} (Marie)"),
            ("FR14 2004 1010 0505 0001 3M02 606", "compte {}"),
            ("NL91ABNA0417164300", "rekening {},"),
            ("CH93 0076 2011 6238 5295 7", "Konto {}"),
            ("AT61 1904 3002 3457 3201", "Konto {}"),
            ("ES91 2100 0418 4502 0005 1332", "cuenta {}"),
            ("IT60 X054 2811 1010 0000 0123 456", "conto {}"),
            ("PL61 1090 1014 0000 0712 1981 2874", "konto {}"),
            ("SE45 5000 0000 0583 9825 7466", "konto {}"),
            ("NO9386011117947", "konto {}"),
            ("BE68 5390 0754 7034", "rekening {}"),
            ("de89 3704 0044 0532 0130 00", "iban {}"),
            ("GB29-NWBK-6016-1331-9268-19", "{} is the club's"),
        )
    ),
]
_RSA = _pem("RSA PRIVATE KEY")
_BLOCKS: list[tuple[str, str]] = [
    (_RSA.split("\n")[2], f"Before.\n{_RSA}\nAfter."),
    (drawn("PRIVATE KEY3", 64), _pem("PRIVATE KEY")),
    (drawn("EC PRIVATE KEY3", 64), _pem("EC PRIVATE KEY")),
    (drawn("OPENSSH PRIVATE KEY3", 64), _pem("OPENSSH PRIVATE KEY")),
    (drawn("ENCRYPTED PRIVATE KEY3", 64), _pem("ENCRYPTED PRIVATE KEY", mark="> ")),
    (drawn("PGP PRIVATE KEY BLOCK3", 64), _pem("PGP PRIVATE KEY BLOCK")),
    (drawn("SSH2 ENCRYPTED PRIVATE KEY3", 64), _pem("SSH2 ENCRYPTED PRIVATE KEY").replace("-----", "---- ", 1)),
    (
        drawn("json key", 64),
        f'"private_key": "-----BEGIN PRIVATE KEY-----\\n{drawn("json key", 64)}\\n-----END PRIVATE KEY-----\\n"',
    ),
    (
        drawn("putty", 64),
        f"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 2\n"
        f"{drawn('putty', 64)}\n{drawn('putty2', 64)}\nPrivate-MAC: {drawn('mac', 40, HEX)}",
    ),
    (drawn("cut", 64), f"-----BEGIN RSA PRIVATE KEY-----\n{drawn('cut', 64)}\n\nThe rest did not fit."),
]

POSITIVES: list[tuple[str, str, str]] = [
    *(("provider", secret, text.format(secret)) for secret, text in _PROVIDERS),
    *(("credential", secret, text.format(secret)) for secret, text in _BEARERS),
    *(("assigned", secret, text.format(secret) if "{}" in text else text) for secret, text in _ASSIGNED),
    *(("prose", secret, text) for secret, text in _PROSE),
    *_NUMBERS,
    *(("block", secret, text) for secret, text in _BLOCKS),
]
