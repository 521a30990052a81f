"""Words by which names are known in scripts with capitals (English, German, Spanish). Lower-cased, but for phrases."""

from __future__ import annotations

from agent.models.builtin.rules.words import listed, phrases

FIRST_NAMES = listed("""
aditya ajay akira aksel alba alessandro alessia alfonso amara amina amit anand anders andrei andrzej anil anjali
ann-kathrin antje aoife arash aria arjun arne arvid asha ashok ayesha aylin ayşe bartosz bashir bengt benoît bilal
birgit birgitta bjarne bogdan bożena camille carlo carmela caterina celine chiara chidi chloe ciara claude claudine
colm conor cosima cristian dagny damien deepak deepika delphine demetrius dimitri dimitris dilip dinesh dmitri dorota
ebba eamon eduard edyta efe ekaterina elina elodie emre enzo ermina esra étienne eszter eugenia ewa fadi farid fatma
federica federico filip finn fionn folke françois françoise freya friederike fritjof gabriele gaëlle gaston geert
genevieve georgios gianni giorgio giuseppe grzegorz guadalupe gudrun guillaume gunnar gwen hakan hamid haruto hasan
hélène hendrik henriette hilary hiroshi hussein hye-jin ibrahim ida ilaria ileana imani imran inga ioana isla isolde
itziar iwona jacques jadwiga jaime jakub jamal jarosław javad jelena jerome jesper jiří joanne joão jolanta joost jörg
juhani juliette jun juri kamal kamil karim karolina katarzyna kateryna kaveh keiko kemal kenji khadija kiran kofi
krisztina krzysztof kumar kwame lakshmi lamine lars lasse lauri laurent layla leila lenka lennart leonardo leonie
leticia leyla liesbeth ligia linnea lorenzo lorna luca lucie luciana ludovic lukasz łukasz lwazi maarten maciej mads
magnus mahmoud maja małgorzata malik malin manon marcin marek margaux mariam marija marius marjan markéta marlies
marta mathieu matteo mats maurizio mechthild meera mehdi mehmet merve michał mika mikael milan milena miloš mohan
moira mustafa nadège naoko nasrin neha nele niamh nikhil nikos nils nnamdi noemi nuno nuria oksana olaf oisin ondřej
ondine orla osman otmar oumar paolo pascal patrizia pavel pawel paweł pekka pernille petr piotr pierre pietro pradeep
priti priyanka rahul rajesh ramesh ranjit rania rashid ravi razia reinhold rémi renée rhiannon riccardo rohan
rosanna rüdiger ruben rubén saanvi sadia salma samir sanjay sanna sanne satoshi saoirse selim sergey serge
shankar shreya siobhan siv solveig sonal søren stanisław sunil sunita suresh susanna svetlana swati sylvie tadeusz
takeshi tariq thérèse thibault thilo tiago tomasz tomoko toni torben tove trine tuomas tyrone umut uschi vaclav
václav vasily veera venkat vijay vikram vincenzo vito wiebke willem wojciech xavier yannick yasmin yasmine yukiko yuri
yves zahra zainab zbigniew zdeněk zeynep zofia zsófia zsuzsa aaron abby abigail ada adam adele adrian adriana agnes
ahmed aisha alan albert alberto alejandra alejandro alex alexander alexandra alexis alfred alfredo ali alice alicia
alina alison allison amanda amelia amir amy ana andrea andreas andrew andy angela angelika anita anja anke ann anna
anne annegret annette annika anselm anselmo anthony antonia antonio arthur arturo astrid aurora axel barbara bärbel
beate beatrice beatriz ben benedikt benjamin bernd bernhard bettina bianca björn bob boris brandon brian brigitte
bruno bryan camila carl carla carlos carmen carol carolina caroline carsten catherine cecilia chad charles charlotte
chris christa christian christiane christina christine christoph christopher claire clara clarissa claudia claudio
clemens connor cornelia cristina cynthia dagmar damian dan daniel daniela danielle david debbie deborah denise dennis
derek diana diane diego dieter dietmar dirk dominic dominik donald donna dorothea doris dorothy douglas duncan
eberhard eduardo edgar edith edward elena eleanor elias elisa elisabeth elizabeth elke ella ellen elliot emil emilia
emilio emily emma enrique eric erica erich erik erika ernesto ernst esteban esther ethan eugene eva evelyn fabian
fatima felipe felix fernanda fernando fiona florian frances francesca francesco francisco frank franz frederick frieda
friedrich fritz gabriel gabriela gareth gary george georg gerald gerd gerhard gertrud giovanni gisela giulia gloria
gonzalo gordon graham greg gregor gregory guillermo gustavo guido günter günther hal hanna hannah hannes hans harald
harold harriet harry hassan heather hector hedwig heidi heike heiko heinrich heinz helen helena helga helge helmut
henrik henry herbert hermann hilda hilde holger horst howard hubert hugo ian ignacio igor ilse inés inge ingo ingrid
irene iris irma isaac isabel isabella ivan jacob jake jakob james jamie jan jana jane janet janine jason javier jean
jeff jeffrey jenny jennifer jens jeremy jessica jill jim joachim joan joanna joaquín jochen joe joel johan johann
johanna johannes john johnny jonas jonathan jordan jorge josé josef joseph joshua josephine juan juana judith judy
julia julian julián juliana julie julius justin jürgen jutta kai karen karin karl karla karsten katarina kate
katharina katherine kathleen kathrin kathy katie katja katrin keith kelly kenneth kerstin kevin kim kirsten klaus knut
konrad kristin kurt kyle lara larry laura lauren laurence leah lena leo leon leonard leslie liam lina linda lisa
lothar lotte louis louise lucas lucía lucy ludwig luis luisa lukas luke lydia lynn magdalena maggie maite malcolm
manfred manuel manuela marc marcel marcia marco marcos marcus margaret margarete margit maria maría mariana marianne
marie marina mario marion markus marlene martha martin martina mary mateo mathias matilda matthew matthias maureen
maurice max maximilian maya megan melanie mercedes meredith mia michael michaela michelle miguel mike mikhail miriam
mireille mohamed mohammed mona monica monika moritz muriel nadia nadine nancy naomi natalia natalie natasha nathan
neil nelson nicholas nick nicola nicole nigel niklas nikolai nina nora norbert norma norman oleg oliver olivia olga
omar oscar oskar otto pablo pamela paola paloma patricia patrick paul paula paulina pedro peggy penelope peter petra
philip philipp phillip phoebe pia priya rachel rafael rainer ralf ralph ramón raúl raymond rebecca regina reinhard
renate ricardo richard rita rob robert roberta roberto robin rodney rodrigo roger roland rolf roman ron ronald
rosalind rosemary roxana rudolf ruth ryan sabine sabrina sally samantha samuel sandra sara sarah scott sean sebastian
sebastián selena sergei sergio sharon sheila shirley siegfried sigrid silke silvia simon simone sina sofia sofía sonia
sonja sophia sophie stacy stan stefan stefanie stella stephan stephanie stephen steve steven stuart susan susana
susanne suzanne svein sven svenja sylvia tamara tanja tanya tatiana ted teresa terry theo theodor theresa thomas
thorsten tilda tim timothy tina tobias todd tom tomás tony torsten tracy trevor udo ulrich ulrike ulla ursula ute uwe
valentina valeria vanessa vera verena veronica verónica victor victoria vincent viola violeta virginia viviana
vladimir volker walter wanda wendy werner wilhelm wilma winfried wolfgang wolfram ximena yolanda yusuf yvonne zoe
""")
"""First names that are hardly anything else at the place of a name."""

DOUBTFUL_FIRST_NAMES = listed("""
abel amber angel april august bea bill brook carmen chance charity chase chuck crystal daisy dawn dean domingo dolores
don drew ed elf eve faith felicity ferdinand flora frank glen grace grant hazel heath holly hope hunter iris ivy jack
jade jasmine jay jewel john josh joy june kay lance lee lily mark marcos maría max may mercedes milagros nick olive
pat pearl pierce piper poppy randy ray reed rich rob rocío rod rose rosa ruby rusty sage salvador sandy sam santiago
skip sonny stella sunny susi tanner tom violet wayne west will willow woody
""")
"""First names that are words as well: taken for a person only with a family name behind them."""

PARTICLES = listed("""
de del della der den di da dos du la las los van von vom zu zur ter ten bin ibn
""")

HONORIFICS = listed("""
mr mr. mrs mrs. ms ms. miss dr dr. prof prof. professor sir madam dame lord lady captain sergeant inspector judge
senator uncle aunt auntie father sister brother pastor rabbi herr herrn frau fräulein doktor professorin pfarrer tante
onkel familie señor señora señorita sr sr. sra sra. srta srta. don doña doctor doctora profesor profesora padre tía
tío president minister presidente presidenta ministro ministra chancellor bundeskanzler ing. dipl.-ing. st.
""")

SPEECH = listed("""
said says wrote writes asked asks told tells replied replies thinks thought mentioned added explained suggested
suggests joined sent calls called wants wanted bought sold signed promised sagt sagte schrieb schreibt meinte meint
fragt fragte erklärte bringt kommt übernimmt leitet dijo dice escribió escribe preguntó llamó llama firmó firmaron
viaja nació dirige trabaja presentó pagó preparará explicó
""")
"""What only people do: two capitalised words before one of these are taken for somebody."""

BEFORE_PERSON = listed("""
by from with ask asks asked told tell thanks thank cc met hi hello dear hallo hola
""")
CALLED = listed("""
ask asks asked told tell thanks thank cc hi hello dear hallo hola liebe lieber querida querido
""")
"""Words before somebody; after those of the second list a first name that is a word as well counts too."""

ORGANISATION_ENDS = listed("""
energy logistics insurance electronics enterprises builders bakery pharmacy airport orchestra wetterdienst rundfunk
zeitung handwerkskammer krankenversicherung institutes inc inc. ltd ltd. llc llp plc corp corp. corporation co co.
company gmbh ag se kg ohg mbh ug e.v. e.v eg s.a. s.l. s.a s.l sa sl s.a.u. s.l.u. s.r.l. spa s.p.a. bv b.v. nv n.v.
oy ab as a/s pty coop coop. group holding holdings partners associates foundation institute university college school
academy hospital clinic council committee commission agency authority ministry association society union federation
league club trust bank press museum library church airlines airways motors systems technologies software solutions
industries laboratories labs pharmaceuticals consulting studios herald tribune gazette stiftung verein verband
universität hochschule institut bundesamt ministerium gesellschaft genossenschaft verlag werke stadtwerke gruppe
zentralbank sparkasse krankenhaus klinikum gymnasium fundación asociación universidad instituto ministerio banco
ayuntamiento cooperativa sindicato editorial hermanos
""")
"""Last words of a name of an organisation (with at least one capitalised word before it)."""

ORGANISATION_HEADS = listed("""
panadería farmacia seguros autoescuela inmobiliaria ferretería confederación agencia universidades junta diputación
generalitat cámara kreissparkasse volksbank raiffeisenbank finanzamt jobcenter amtsgericht landgericht grundschule
realschule gesamtschule fachhochschule technische kita praxis gasthof druckerei gärtnerei metzgerei institutes
university bank ministry department institute museum college school council association federation society bureau
office academy church court embassy port hospital universität hochschule institut bundesamt ministerium verband verein
stiftung firma sparkasse stadtwerke elektro autohaus bäckerei apotheke hausverwaltung kanzlei spedition gymnasium
klinikum landesamt umweltamt universidad banco ministerio instituto fundación asociación ayuntamiento grupo consejo
colegio escuela editorial transportes construcciones maderas muebles talleres clínica cooperativa sindicato federación
restaurante hotel librería
""")
"""First words of a name of an organisation: "University of …", "Grupo …", "Stadtwerke …"."""

LINKS = listed("""
of for de del für des der and & und y la las los the zu zur
""")

PLACE_ENDS = listed("""
street road avenue lane drive square boulevard bridge park station airport island islands valley bay harbour harbor
beach county river lake hill hills mountains
""")
PLACE_HEADS = listed("""
lake mount river cape fort port saint san santa são puerto villa plaza calle avenida paseo río rio isla sierra monte
lago playa rue piazza
""")
LOWER_PLACE_HEADS = listed("""
calle avenida plaza paseo río rio calles barrio ciudad provincia
""")
STREETS = listed("calle calles avenida plaza paseo")
"""Those of them that belong to the name."""
STREET_GERMAN = ("straße", "strasse", "gasse", "allee", "damm")

PLACES = phrases("""
aberdeen|adelaide|aleppo|algiers|almaty|amman|anchorage|ankara|baku|bari|bogota|brasilia|brno|cardiff|catania|colombo
cologne|dakar|damascus|dar es salaam|darwin|dhaka|doha|dundee|eindhoven|exeter|fukuoka|galway|gdansk|granada
graz|groningen|hague|the hague|haifa|harare|hiroshima|ho chi minh city|honolulu|indianapolis|izmir|jaipur|kampala
kathmandu|kazan|kigali|kolkata|krakow|kuala lumpur|lahore|lausanne|leuven|lille|limerick|lusaka|luxembourg city|malmö
maputo|marrakesh|memphis|mombasa|nagoya|nantes|nashville|odessa|ostrava|palermo|panama city|plymouth|portsmouth
poznan|pretoria|pune|quebec city|rabat|salt lake city|san antonio|san jose|sapporo|sarajevo|seville|siena|skopje
southampton|st petersburg|saint petersburg|swansea|tampere|tbilisi|tehran|thessaloniki|tirana|trieste|tripoli
trondheim|tunis|turku|ulaanbaatar|uppsala|verona|windhoek|wroclaw|yerevan|yokohama|norwegen|schweden|zwickau|plauen
bamberg|bayreuth|bautzen|celle|dessau|detmold|emden|eisenach|fulda|gera|gießen|goslar|gotha|greifswald|hagen|hameln
hildesheim|ingolstadt|kaiserslautern|krefeld|landshut|lüneburg|meißen|mönchengladbach|naumburg|neubrandenburg
pforzheim|quedlinburg|ravensburg|reutlingen|rosenheim|siegen|solingen|speyer|stralsund|suhl|ulm|wismar|wittenberg
|zittau|bregenz|villach|winterthur|st. gallen|lugano|harz|schwarzwald|eifel|allgäu|sachsen-anhalt|ávila|albacete
algeciras|arequipa|asunción|barranquilla|cáceres|cali|caracas|castellón|ceuta|ciudad real|ciudad de méxico|guanajuato
huesca|ibiza|jerez|mallorca|menorca|melilla|mérida|managua|maracaibo|morelia|ourense|pontevedra|querétaro|rosario
san josé|santa cruz|teruel|tenerife|toluca|trujillo|veracruz|zacatecas|afghanistan|albania|algeria|argentina|armenia
australia|austria|azerbaijan|bangladesh|belarus|belgium|bolivia|bosnia|brazil|bulgaria|cambodia|cameroon|canada|chile
china|colombia|croatia|cuba|cyprus|czechia|denmark|ecuador|egypt|england|estonia|ethiopia|finland|france|georgia
germany|ghana|great britain|greece|guatemala|honduras|hungary|iceland|india|indonesia|iran|iraq|ireland|israel|italy
jamaica|japan|jordan|kazakhstan|kenya|korea|kuwait|latvia|lebanon|libya|lithuania|luxembourg|malaysia|malta|mexico
moldova|mongolia|morocco|mozambique|myanmar|nepal|netherlands|the netherlands|new zealand|nicaragua|nigeria
north korea|northern ireland|norway|pakistan|panama|paraguay|peru|philippines|poland|portugal|qatar|romania|russia
rwanda|saudi arabia|scotland|senegal|serbia|singapore|slovakia|slovenia|south africa|south korea|spain|sri lanka|sudan
sweden|switzerland|syria|taiwan|tanzania|thailand|tunisia|turkey|uganda|ukraine|united kingdom|united states|uruguay
uzbekistan|venezuela|vietnam|wales|yemen|zambia|zimbabwe|europe|africa|asia|america|latin america|north america
south america|antarctica|scandinavia|california|texas|florida|alaska|hawaii|oregon|nevada|utah|arizona|colorado|ohio
michigan|illinois|massachusetts|pennsylvania|virginia|quebec|ontario|alberta|bavaria|saxony|svalbard|greenland|siberia
tasmania|crete|sicily|catalonia|deutschland|österreich|schweiz|frankreich|italien|spanien|griechenland|polen
tschechien|ungarn|rumänien|bulgarien|niederlande|belgien|dänemark|finnland|irland|großbritannien|russland|kroatien
serbien|slowenien|indien|kanada|brasilien|mexiko|argentinien|ägypten|marokko|südafrika|australien|europa|afrika|asien
bayern|sachsen|thüringen|hessen|brandenburg|niedersachsen|nordrhein-westfalen|rheinland-pfalz|baden-württemberg
saarland|schleswig-holstein|mecklenburg-vorpommern|tirol|kärnten|steiermark|rhein|donau|elbe|neckar|mosel|spree|alpen
ostsee|nordsee|bodensee|españa|francia|italia|alemania|inglaterra|reino unido|estados unidos|méxico|perú|brasil|japón
corea|rusia|suecia|noruega|dinamarca|países bajos|suiza|grecia|turquía|egipto|marruecos|canadá|costa rica|el salvador
república dominicana|américa|áfrica|asturias|galicia|cataluña|andalucía|aragón|navarra|murcia|extremadura|castilla
la rioja|canarias|baleares|país vasco|duero|ebro|tajo|guadalquivir|pirineos|andes|amazonas|amsterdam|athens|auckland
austin|baghdad|baltimore|bangkok|barcelona|beijing|beirut|belfast|belgrade|bergen|berlin|birmingham|bogotá|bologna
bonn|bordeaux|boston|bratislava|brighton|brisbane|bristol|brussels|bucharest|budapest|buenos aires|cairo|calgary
cambridge|canberra|cape town|chicago|cleveland|copenhagen|dallas|delhi|denver|detroit|dubai|dublin|durban|edinburgh
florence|geneva|genoa|ghent|glasgow|gothenburg|hamburg|hanoi|havana|helsinki|hong kong|houston|inverness|istanbul
jakarta|jerusalem|johannesburg|karachi|kiev|kyiv|kyoto|lagos|leeds|leicester|lima|lisbon|liverpool|ljubljana|london
los angeles|lyon|madrid|manchester|manila|marseille|melbourne|mexico city|miami|milan|minneapolis|montevideo|montreal
moscow|mumbai|munich|nairobi|naples|new delhi|new orleans|new york|newcastle|nottingham|osaka|oslo|ottawa|oxford|paris
philadelphia|phoenix|pittsburgh|porto|portland|prague|reykjavik|riga|rio de janeiro|rome|rotterdam|san diego
san francisco|santiago de chile|são paulo|seattle|seoul|shanghai|sheffield|shenzhen|sofia|stockholm|strasbourg|sydney
taipei|tallinn|tartu|tel aviv|tokyo|toronto|toulouse|turin|utrecht|vancouver|venice|vienna|vilnius|warsaw|washington
washington dc|wellington|winnipeg|zagreb|zurich|accra|casablanca|silicon valley|wall street|hyderabad|bangalore
chennai|antwerp|bruges|aachen|augsburg|basel|bern|bielefeld|bochum|braunschweig|bremen|chemnitz|cottbus|darmstadt
dortmund|dresden|duisburg|düsseldorf|erfurt|erlangen|flensburg|frankfurt|frankfurt am main|freiburg|genf|görlitz
göttingen|hannover|heidelberg|heilbronn|innsbruck|jena|karlsruhe|kassel|kiel|klagenfurt|koblenz|konstanz|köln|leipzig
linz|lübeck|luzern|magdeburg|mailand|mainz|mannheim|marburg|münchen|münster|nürnberg|oldenburg|osnabrück|paderborn
passau|potsdam|prag|regensburg|rostock|saarbrücken|salzburg|schwerin|stuttgart|trier|tübingen|venedig|warschau|weimar
wien|wiesbaden|wolfsburg|wuppertal|würzburg|zürich|brüssel|kopenhagen|moskau|peking|athen|lissabon|alicante|almería
badajoz|bilbao|burgos|cádiz|cartagena|córdoba|cuenca|cusco|gijón|girona|guadalajara|guayaquil|huelva|jaén|la habana
la paz|la plata|león|lleida|logroño|londres|lorca|málaga|medellín|mendoza|monterrey|moscú|nueva york|oaxaca|oviedo
palencia|pamplona|parís|puebla|quito|salamanca|san sebastián|santander|segovia|sevilla|soria|tarragona|tijuana|toledo
valencia|valladolid|valparaíso|vigo|vitoria|zamora|zaragoza|bruselas|berlín|ginebra|pekín|milán|lisboa
""")
GERMAN_PLACES = listed("""
main oder essen halle rom island türkei
""")
"""Places only where the text around is German: elsewhere they are words."""

ADJECTIVES = listed("""
north south east west northern southern eastern western central english german french spanish chinese italian russian
american british european great national international federal royal new old
""")
"""May begin the name of an organisation or a place, not of a person."""

ORGANISATIONS = phrases("""
google|microsoft|amazon web services|siemens|bosch|volkswagen|samsung|sony|intel|nvidia|canonical|mozilla|ibm|bmw|sap
oracle|nasa|nato|unesco|unicef|bbc|cnn|fbi|cia|nhs|ecb|united nations|european union|european commission|red cross
greenpeace|world health organization|european central bank|naciones unidas|unión europea|cruz roja|vereinte nationen
europäische union|rotes kreuz|deutsche bahn|deutsche bank|deutsche post|lufthansa|telefónica|iberdrola|renfe|openai
anthropic
""")

PRODUCTS = phrases("""
android|ios|ipados|macos|windows|linux|ubuntu|debian|fedora|arch linux|centos|freebsd|iphone|ipad|ipad pro|macbook
macbook pro|macbook air|imac|apple watch|airpods|kindle|playstation|xbox|nintendo switch|thinkpad|galaxy|pixel
chromebook|raspberry pi|firefox|chrome|chromium|safari|thunderbird|outlook|excel|powerpoint|libreoffice|openoffice
photoshop|indesign|gimp|inkscape|blender|autocad|gmail|google maps|google docs|google drive|youtube|whatsapp
telegram messenger|signal messenger|instagram|facebook|twitter|tiktok|linkedin|spotify|netflix|dropbox|onedrive|icloud
nextcloud|owncloud|slack|microsoft teams|zoom|skype|discord|notion|obsidian|trello|jira|confluence|github|gitlab
bitbucket|docker|kubernetes|podman|ansible|terraform|jenkins|grafana|prometheus|postgresql|postgres|mysql|mariadb
sqlite|mongodb|redis|elasticsearch|kafka|rabbitmq|nginx|apache|python|javascript|typescript|node.js|java|kotlin|rust
django|flask|react|angular|wordpress|typo3|joomla|drupal|php|perl|visual studio|visual studio code|vs code|pycharm
intellij|emacs|vim|chatgpt|alexa|siri|paypal|xiaomi redmi|gnome|kde|xorg|wayland|bugzilla|launchpad|apt|virtualbox
vmware|wine|steam|bitcoin|ethereum
""")
DOUBTFUL_PRODUCTS = listed("""
windows galaxy pixel chrome safari excel zoom notion slack outlook rust java apache apt wine steam signal python react
flask vim perl switch sierra arch
""")
"""Products that are words as well: alone only in the middle of a sentence."""

NO_PRODUCT = listed("""
build lite express duty version release section chapter part page figure fig fig. table step level room gate track
line platform building floor block day week year month season episode number no no. nr nr. question issue bug ticket
pull request appendix article paragraph item option phase stage round group team class grade size type route bus tram
train flight seat desk box shelf lot unit model copy volume vol vol. act scene verse psalm rule law point score column
row slide sheet exercise problem task sprint q kapitel abschnitt seite punkt artikel absatz teil band tabelle
abbildung abb abb. gleis raum zimmer saal halle haus hausnummer platz tisch stock etage tag woche jahr klasse gruppe
linie zug flug sitz kiste regal ausgabe frage nummer satz zeile spalte bild folie aufgabe schritt stufe runde paragraf
tor aufgang eingang ebene postfach konto versión capítulo sección página tabla figura número artículo parte paso punto
sala aula piso planta puerta andén vía línea calle tren vuelo asiento mesa caja grupo fase ronda semana día año tomo
""")
"""Words before a number that make it an address or a count, not a version."""

COMMON = listed("""
a about after all also although an and another any are as at be because before both but by can could did do does each
either every everybody everyone few finally first for friday from had has have he hello her here hers hey hi his how
however i if in into is it its just last later let like many maybe me monday more most much my never new next no
nobody none not nothing now of often oh ok okay old on once one only or other our over perhaps please regards re same
saturday second she should since so some somebody someone something sometimes soon still such sunday sure than thank
thanks that the their them then there these they third this those though thursday to today together tomorrow tonight
too tuesday two under until up us use very was we wednesday well were what when where whether which while who whoever
why will with without would yes yesterday yet you your dear best kind sincerely cheers attention note decision
question answer budget update reminder agenda summary minutes todo big little good bad high low main january february
march april may june july august september october november december spring summer autumn fall winter der die das den
dem des ein eine einen einem einer und oder aber nicht ich du er sie es wir ihr mich mir dich dir uns euch ihnen ihn
ihm mein meine dein deine sein seine ihre unser unsere euer im am um auf aus bei beim bis durch für gegen hinter mit
nach neben ohne seit über unter von vom vor wegen während zu zum zur zwischen anfang ende mitte morgen gestern heute
bitte danke hallo guten gute guter liebe lieber liebes frohe herzlichen herzliche viele alle alles als auch da dann
dass denn dieser diese dieses dort etwas falls hier ja jetzt kann kannst kein keine man mehr nein noch nun nur ob
schon sehr sonst weil wenn wer wie wo wurde wird hat ist war montag dienstag mittwoch donnerstag freitag samstag
sonntag januar februar märz mai juni juli oktober dezember frühling sommer herbst version termin punkt el la los las
un una unos unas y o pero sí yo tú él ella nosotros ellos te se nos os mi tu su sus este esta estos estas ese esa eso
en de del al con por para según sin sobre entre desde hasta cuando donde como que qué quién quien cuál hay ha han
hemos hola buenos buenas buen gracias favor todos todas toda muy más menos ya también nadie nada algo siempre nunca
hoy mañana ayer lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril mayo junio julio agosto
septiembre octubre noviembre diciembre fecha importe saludo saludos semana
""")
"""Words that are capitalised for beginning a sentence, or in their language: never part of a name's beginning."""

GENERIC = listed("""
firma verein company unternehmen empresa
""")
"""Words before the name of an organisation that do not belong to it."""
